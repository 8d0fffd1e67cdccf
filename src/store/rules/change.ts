/** Applies what the model computed (model/change.ts) to a job: each kind of change by its rule. */
import assert from "node:assert/strict";
import type { ChangeNext } from "../../model/change.ts";
import { stateCodes } from "../../model/job-state.ts";
import type { JobRow } from "../job-fields.ts";
import type { Settle } from "../operations.ts";
import type { Outcome } from "./advance.ts";
import { finish } from "./finish.ts";
import { mark } from "./mark.ts";
import { place } from "./place.ts";
import { remove } from "./remove.ts";
import { replay } from "./replay.ts";

export function isFinished({ state }: Pick<JobRow, "state">): boolean {
  return state >= stateCodes.completed;
}

/** Whether the change brings a finished job back, so that its key has to be free. */
export function isReplay(row: JobRow, next: ChangeNext): boolean {
  return isFinished(row) && (next.to === "scheduled" || next.to === "ready");
}

/** `attempts` is the packed attempt log from now on; null leaves it. */
export function change(row: JobRow, next: ChangeNext, attempts: string | null, now: number): Outcome {
  const noted: JobRow = attempts === null ? row : { ...row, attempts };
  switch (next.to) {
    case "scheduled":
      return isFinished(row) ? replay(noted, next, now) : place(noted, next, now);
    case "ready":
      assert(!isFinished(row), "a finished job comes back only by a schedule");
      return place(noted, next, now);
    case "same":
      return mark(noted, next);
    case "removed":
      return remove(noted);
    default:
      assert(!isFinished(row), `a finished job cannot end again as ${next.to}`);
      return finish(noted, next, now);
  }
}

/** The end of an attempt, by the holder of its lease: its fence is kept, so that a repeat is answered `already`. */
export function settle(row: JobRow, { next, attempts }: Settle, now: number): Outcome {
  return change({ ...row, settledFence: row.fence }, next, attempts, now);
}
