/** Applies what the model computed (model/job/change.ts) to a job: each kind of change by its rule. */
import assert from "node:assert/strict";
import type { ChangeNext, SettleNext } from "../../model/job/change.ts";
import { stateCodes, stateOfCode } from "../../model/job/job-state.ts";
import type { JobRow } from "../job-fields.ts";
import type { Append, Change, ChangeAnswer, Settle } from "../operations.ts";
import type { Outcome } from "./advance.ts";
import { block } from "./flow/block.ts";
import type { JobById } from "./flow/block.ts";
import { finish } from "./finish.ts";
import { isHeld } from "./guard.ts";
import { suspend, withEntries } from "./journal.ts";
import { update } from "./update.ts";
import { hasPassedOn } from "./flow/member.ts";
import { place } from "./place.ts";
import { deleteJob } from "./delete.ts";
import { keyOfReplay, replay } from "./replay.ts";
import { noteOf } from "./emit.ts";

export function isFinished({ state }: Pick<JobRow, "state">): boolean {
  return state >= stateCodes.completed;
}

/** Whether the change brings a finished job back, so that its key has to be free. */
export function isReplay(row: JobRow, next: ChangeNext | SettleNext): boolean {
  return isFinished(row) && (next.to === "scheduled" || next.to === "ready" || next.to === "blocked");
}

/**
 * `attempts` is the new packed attempt log; null keeps the old one. `jobById` finds the parents of a job that becomes
 * blocked.
 */
export function change(
  row: JobRow,
  next: ChangeNext | SettleNext,
  attempts: string | null,
  now: number,
  jobById?: JobById,
): Outcome {
  const noted: JobRow = attempts === null ? row : { ...row, attempts };
  switch (next.to) {
    case "scheduled":
      return isFinished(row) ? replay(noted, next, now) : place(noted, next, now);
    case "ready":
      assert(!isFinished(row), "a finished job comes back only by a schedule");
      return place(noted, next, now);
    case "same":
      return update(noted, next);
    case "suspended":
      return suspend(noted, next, now);
    case "blocked":
      assert(jobById !== undefined, "a settle does not block a job");
      return block(noted, next, jobById, now);
    case "deleted":
      return deleteJob(noted);
    default:
      assert(!isFinished(row), `a finished job cannot end again as ${next.to}`);
      return finish(noted, next, now);
  }
}

/** The end of an attempt, by the holder of its lease: its fence is kept, so that a repeat is answered `already`. */
export function settle(row: JobRow, { next, attempts }: Settle, now: number): Outcome {
  return { ...change({ ...row, settledFence: row.fence }, next, attempts, now), note: noteOf(row, attempts) };
}

/** Lookups that a change may need. */
export interface Lookup {
  /** The holder of a unique key; null for none. */
  readonly holderOf: (key: string) => Pick<JobRow, "seq" | "id"> | null;
  readonly jobById: JobById;
  /** Whether the journal of this job refuses an entry of others with this key. */
  readonly hasKey: (row: JobRow, key: string) => boolean;
  /** How many entries of the journal of this job nobody has read, and their size. */
  readonly unreadOf: (row: JobRow) => Unread;
}

export interface Unread {
  readonly count: number;
  readonly size: number;
}

/**
 * A change by an operator or a duty: the first case whose guard holds is applied. If none holds, the answer has the
 * present state. The outcome is null if nothing is to be written. The caller writes the entry that the case appends.
 */
export function changeByGuard(
  row: JobRow,
  { token, cases }: Change,
  look: Lookup,
  now: number,
): { readonly answer: ChangeAnswer; readonly outcome: Outcome | null } {
  const from = stateOfCode(row.state);
  const refused = (kind: "already" | "changed" | "repeated" | "full"): Refused => ({
    answer: { kind, state: from, rev: row.rev } as ChangeAnswer,
    outcome: null,
  });
  if (cases.some(({ append }) => append !== undefined && look.hasKey(row, append.entry.key)))
    return refused("repeated");
  const applied = cases.findIndex(({ guard }) => isHeld(guard, row, now));
  const chosen = cases[applied];
  if (chosen === undefined) {
    const isRepeat = token !== undefined && token === row.changeToken;
    return refused(isRepeat ? "already" : "changed");
  }
  const { next, attempts = null, append } = chosen;
  if (append !== undefined && isFull(append, () => look.unreadOf(row))) return refused("full");
  if (isReplay(row, next) && !hasPassedOn(row)) return refused("changed");
  const key = isReplay(row, next) ? keyOfReplay(row) : null;
  const holder = key === null ? null : look.holderOf(key);
  if (holder !== null && holder.seq !== row.seq)
    return { answer: { kind: "key-held", by: holder.id }, outcome: null };
  const known = token === undefined ? row : { ...row, changeToken: token };
  const appended = append === undefined ? known : withEntries(known, [append.entry]);
  const outcome = change(appended, next, attempts, now, look.jobById);
  const state = next.to === "deleted" ? null : stateOfCode(outcome.row.state);
  return { answer: { kind: "ok", applied, from, state, rev: outcome.row.rev }, outcome };
}

interface Refused {
  readonly answer: ChangeAnswer;
  readonly outcome: null;
}

/** Whether this entry would be one unread entry too many, or too large. */
function isFull({ entry, unreadMax }: Append, unread: () => Unread): boolean {
  if (unreadMax === undefined) return false;
  const { count, size } = unread();
  const more = entry.unread === undefined ? 0 : 1;
  return count + more > unreadMax.count || size + (entry.unread ?? 0) > unreadMax.size;
}
