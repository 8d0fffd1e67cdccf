/**
 * Rule R3: the end of a job, however it came about (settle, cancel, expiry, reclaim, an operator). Its lease ends, a
 * key that it holds is freed unless it is held by time, and it is kept as the finish says; a member of a flow as long
 * as its flow. If the finish keeps its lane, it goes on holding the gate of its group.
 */
import type { Finish } from "../../model/job/change.ts";
import { hasMark } from "../../model/durable/durable-marks.ts";
import { foreverMs } from "../../model/limits/gate.ts";
import { stateCodes } from "../../model/job/job-state.ts";
import type { JobRow } from "../job-fields.ts";
import { advance, clearedBy } from "./advance.ts";
import type { Outcome } from "./advance.ts";
import { asLaned } from "./gates/lane-change.ts";
import { isMember } from "./flow/member.ts";
import { uniqueHolds } from "./unique-holds.ts";

const cleared = clearedBy("finish");
/**
 * Retention skips jobs with a keeping time of their own, and this time never comes: the member is deleted with its
 * flow.
 */
export const keptForeverAt = foreverMs;
const keptWithFlow = { keepMs: null, keepResultMs: undefined };

export function finish(row: JobRow, next: Finish, now: number): Outcome {
  const { to, event, reason, result, keepsLane = false } = next;
  const isMembers = isMember(row);
  const { keepMs, keepResultMs } = isMembers ? keptWithFlow : next;
  const ended = advance(row, {
    ...cleared,
    state: stateCodes[to],
    keepsLane: keepsLane && asLaned(row) !== null ? 1 : 0,
    endedAt: now,
    keepUntil: isMembers ? keptForeverAt : keepUntilOf(next, now),
    resultUntil: keepResultMs === undefined ? null : now + keepResultMs,
    reason,
    result,
  });
  return {
    row: ended,
    event,
    isKept: keepMs !== 0,
    defers: hasMark(row.durable, "hasChildren"),
    key: row.holds === uniqueHolds.none ? "stays" : "freed",
  };
}

/** Until when the job is kept; null leaves it to the queue's retention. */
export function keepUntilOf({ keepMs }: Finish, now: number): number | null {
  return keepMs === null ? null : now + keepMs;
}
