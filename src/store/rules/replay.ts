/**
 * Replay: a finished job becomes live again under its own id and seq. The fields of its end are cleared. Its fence goes
 * on growing, so that no settle of an earlier round is ever applied. A key that is held until the end is taken again;
 * if another job has it, the replay is refused. A job that still held its group comes back at its old place.
 */
import type { Schedule } from "../../model/job/change.ts";
import type { EventKind } from "../../model/events/event-kind.ts";
import type { JobRow } from "../job-fields.ts";
import { advance, clearedBy } from "./advance.ts";
import type { Outcome } from "./advance.ts";
import { unpassed } from "./flow/member.ts";
import { waitingFields } from "./place.ts";
import { uniqueHolds } from "./unique-holds.ts";

const cleared = { ...clearedBy("place"), ...clearedBy("replay") };

/** The key that a replay of this job has to take; null for none. */
export function keyOfReplay({ uniqueKey, uniqueHold }: JobRow): string | null {
  return uniqueHold === uniqueHolds.end ? uniqueKey : null;
}

export function replay(row: JobRow, next: Schedule, now: number): Outcome {
  return comeBack(row, next.event, waitingFields(row, next, now));
}

/** Brings a finished job back with these fields. */
export function comeBack(row: JobRow, event: EventKind, fields: Partial<JobRow>): Outcome {
  const isTaken = keyOfReplay(row) !== null;
  const back = advance(row, {
    ...cleared,
    waits: unpassed(row),
    ...fields,
    holds: isTaken ? uniqueHolds.end : uniqueHolds.none,
  });
  return { row: back, event, isKept: true, key: isTaken ? "taken" : "stays" };
}
