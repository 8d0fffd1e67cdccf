/**
 * What every rule over a job ends with. A rule is a pure function: from the row before and the request to the row
 * after, and what has to be emitted and done. Embedded stores call these functions; SQL and Lua have functions of the
 * same names.
 *
 *  place    R1   a new or returning job among the waiting        lease    R6   handed to a worker
 *  guard    R2   whether a change may be applied                 extend        its lease is renewed
 *  finish   R3   the end                                         meet     R8   a submit finds its unique key held
 *  arrive   R4   the end of a member comes to another            block    R4   a member waits for others again
 *  promote  R5   due, so ready                                   emit     R10  events, and changes of state counts
 *  update, edit, delete, replay                                  what operators do; `change` applies them
 *
 * No rule reads or writes a store. Guards are checked before a rule is called.
 */
import assert from "node:assert/strict";
import type { EventKind } from "../../model/events/event-kind.ts";
import { canMove, stateOfCode } from "../../model/job/job-state.ts";
import { fieldNames, isClearedBy, jobFields } from "../job-fields.ts";
import type { JobField, JobRow } from "../job-fields.ts";
import { timerAtOf } from "./timer.ts";

/** The result of a rule. */
export interface Outcome {
  /** The job after the change, also if it is not kept: its event is made from it. */
  readonly row: JobRow;
  readonly event: EventKind;
  /** For a settle: the note of its event (`noteOf` of emit.ts). */
  readonly note?: string;
  /** False if the job leaves the store: it was deleted, or it ended and nothing is kept. */
  readonly isKept: boolean;
  /** What happens to the entry of its unique key, if it has one. */
  readonly key: "stays" | "taken" | "freed";
  /** Deferred work is left for the job. */
  readonly defers?: boolean;
}

/** The row after a step: its transition is checked, its rev grows, and its timer is computed from its clocks. */
export function advance(from: JobRow, changes: Partial<JobRow>): JobRow {
  const row: JobRow = { ...from, ...changes, rev: from.rev + 1 };
  assertArrow(from.state, row.state);
  row.timerAt = timerAtOf(row);
  return row;
}

/** A change that is no transition of model/job/job-state.ts is a bug, and is stopped before it is written. */
export function assertArrow(from: number, to: number): void {
  // Staying in a state is no transition and is allowed.
  if (from === to) return;
  const source = stateOfCode(from);
  const target = stateOfCode(to);
  // The message is only made if the assertion fails.
  if (!canMove(source, target)) assert.fail(`a job cannot move from ${source} to ${target}`);
}

/** The fields that a rule sets back, with their initial values. */
export function clearedBy(rule: "lease" | "place" | "finish" | "replay"): Partial<JobRow> {
  return initialValues(isClearedBy(rule));
}

/** The initial values of these fields; null if the table has none. */
export function initialValues(isWanted: (field: JobField, name: string) => boolean): Partial<JobRow> {
  const initialOf = (field: JobField): unknown => field.initial ?? null;
  return Object.fromEntries(fieldNames(isWanted).map((name) => [name, initialOf(jobFields[name])]));
}
