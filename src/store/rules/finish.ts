/**
 * Rule R3: the end of a job, however it came about (settle, cancel, expiry, reclaim, an operator). Its lease is
 * dropped, a key that it holds is freed unless it is held by time, and it is kept as the finish says. Where the finish
 * keeps its lane it goes on holding the gate of its group.
 */
import type { Finish } from "../../model/change.ts";
import { stateCodes } from "../../model/job-state.ts";
import type { JobRow } from "../job-fields.ts";
import { advance, clearedBy } from "./advance.ts";
import type { Outcome } from "./advance.ts";
import { asLaned } from "./lane.ts";
import { uniqueHolds } from "./unique-holds.ts";

const cleared = clearedBy("finish");

export function finish(row: JobRow, next: Finish, now: number): Outcome {
  const { to, event, reason, result, keepMs, keepResultMs, keepsLane = false } = next;
  const ended = advance(row, {
    ...cleared,
    state: stateCodes[to],
    keepsLane: keepsLane && asLaned(row) !== null ? 1 : 0,
    endedAt: now,
    keepUntil: keepUntilOf(next, now),
    resultUntil: keepResultMs === undefined ? null : now + keepResultMs,
    reason,
    result,
  });
  return {
    row: ended,
    event,
    isKept: keepMs !== 0,
    key: row.holds === uniqueHolds.none ? "stays" : "freed",
  };
}

/** Null leaves it to the queue's retention. */
export function keepUntilOf({ keepMs }: Finish, now: number): number | null {
  return keepMs === null ? null : now + keepMs;
}
