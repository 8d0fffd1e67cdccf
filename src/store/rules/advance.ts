/**
 * What every rule over a job ends with. A rule is a pure function: the row as it stood and what is asked, in; the row
 * as it stands and what has to be told and done about it, out. Embedded stores call these functions; SQL and Lua have
 * functions of the same names.
 *
 *  place    R1   a new or returning job among the waiting        lease    R6   handed to a worker
 *  guard    R2   whether a change may be applied                 extend        its lease goes on
 *  finish   R3   the end                                         meet     R8   a submit finds its unique key held
 *  arrive   R4   the end of a member comes to another            block    R4   a member waits for others again
 *  promote  R5   due, so ready                                   tell     R10  what is told, and how counts move
 *  mark, edit, remove, replay                                    what operators do; `change` applies them
 *
 * Nothing here reads or writes a store. Guards were checked before a rule is called.
 */
import assert from "node:assert/strict";
import type { EventKind } from "../../model/events/event-kind.ts";
import { canMove, stateOfCode } from "../../model/job/job-state.ts";
import { fieldNames, isClearedBy, jobFields } from "../job-fields.ts";
import type { JobField, JobRow } from "../job-fields.ts";
import { timerAtOf } from "./timer.ts";

/** What a rule made of a job. */
export interface Outcome {
  /** The job after the change, also where nothing of it is kept: its event is told from this. */
  readonly row: JobRow;
  readonly event: EventKind;
  /** Of a settle: what its event carries beside (`noteOf` of tell.ts). */
  readonly note?: string;
  /** False once the job leaves the store: it was removed, or it ended and nothing was to be kept. */
  readonly isKept: boolean;
  /** What becomes of the entry of its unique key, where it has one. */
  readonly key: "stays" | "taken" | "freed";
  /** Of a member of a flow that was counted anew: deferred work is left for it. */
  readonly defers?: boolean;
}

/** The row one step on: its arrow is checked, its rev grows, its timer follows from its clocks. */
export function advance(from: JobRow, changes: Partial<JobRow>): JobRow {
  const row: JobRow = { ...from, ...changes, rev: from.rev + 1 };
  assertArrow(from.state, row.state);
  row.timerAt = timerAtOf(row);
  return row;
}

/** A change that is no arrow of model/job/job-state.ts is a wrong program, and is stopped before it is written. */
export function assertArrow(from: number, to: number): void {
  // Staying in a state is not an arrow and is allowed.
  if (from === to) return;
  const source = stateOfCode(from);
  const target = stateOfCode(to);
  // The message is made for a wrong program only.
  if (!canMove(source, target)) assert.fail(`a job cannot move from ${source} to ${target}`);
}

/** The fields that a rule sets back, with their initial values. */
export function clearedBy(rule: "lease" | "place" | "finish" | "replay"): Partial<JobRow> {
  return initialValues(isClearedBy(rule));
}

/** The initial values of these fields; null where the table gives none. */
export function initialValues(isWanted: (field: JobField, name: string) => boolean): Partial<JobRow> {
  const initialOf = (field: JobField): unknown => field.initial ?? null;
  return Object.fromEntries(fieldNames(isWanted).map((name) => [name, initialOf(jobFields[name])]));
}
