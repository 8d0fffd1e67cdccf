/**
 * Replay: a finished job comes back to life under its own id and seq. What its end wrote is cleared. Its fence goes
 * on growing, so that no settle of an earlier round can ever count. A key held until the end is taken again; where
 * another job has it, the replay is refused. A job that held its group on comes back where it stood in it.
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

/** A finished job comes back with these fields. */
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
