/**
 * Rule R2 over the journal of a durable run: what entries do to the job's row. The journal itself lies beside the job;
 * each store keeps it in its own way:
 *
 *  append     in order; an entry whose key the journal has in this round is passed over, so a repeat changes nothing
 *  numbers    from 1 on, without gaps
 *  unread     an entry counts as unread with its size until an own entry reads it
 *  new round  the unread entries stay, in order, with new numbers; all others and the slips go; the keys of the newest
 *             entries that others have appended are remembered, and refused like those of entries
 */
import type { Suspend } from "../../model/job/change.ts";
import { durableMarks, roundOf, roundStep } from "../../model/durable/durable-marks.ts";
import { stateCodes } from "../../model/job/job-state.ts";
import type { JobRow } from "../job-fields.ts";
import type { EntryPut } from "../records.ts";
import { advance, clearedBy } from "./advance.ts";
import type { Outcome } from "./advance.ts";
import { asLaned } from "./gates/lane-change.ts";
import { dueAtOf, timerAtOf } from "./timer.ts";

/** The row after these entries were appended: those that were passed over are not among them. */
export function withEntries(row: JobRow, entries: readonly EntryPut[]): JobRow {
  if (entries.length === 0) return row;
  const marks = entries.reduce((all, entry) => all | (entry.marks ?? 0), durableMarks.hasJournal);
  const marked: JobRow = { ...row, durable: row.durable | marks };
  if ((marks & durableMarks.isEnding) === 0) return marked;
  // The undos of the run are not to be stopped by what ended it.
  marked.deadlineAt = null;
  marked.cancelAsked = 0;
  marked.timerAt = timerAtOf(marked);
  return marked;
}

/** The field `durable` once a new round has begun. */
export function newRound(durable: number): number {
  return (roundOf(durable) + 1) * roundStep + (durable & durableMarks.hasJournal);
}

/**
 * The row after a record that says how far the run has got: a crash from now on is the first one. The attempt log of a
 * run whose cancel was requested has the reason, so it stays.
 */
export function setBack(row: JobRow): JobRow {
  return { ...row, attempt: 1, attempts: row.cancelAsked === 1 ? row.attempts : null };
}

const cleared = clearedBy("place");

/** Rule R1: a running job waits for an append or a time. It keeps its rank and its due time. */
export function suspend(row: JobRow, next: Suspend, now: number): Outcome {
  const suspended = advance(row, {
    ...cleared,
    state: stateCodes.suspended,
    ttlAt: next.wake === null ? null : dueAtOf(next.wake, now),
    countsAttempt: next.countsAttempt,
    attempt: next.attempt ?? row.attempt,
    keepsLane: next.keepsLane === true && asLaned(row) !== null ? 1 : 0,
  });
  return { row: suspended, event: next.event, isKept: true, key: "stays" };
}
