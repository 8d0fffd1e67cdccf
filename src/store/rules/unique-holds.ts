/**
 * How a job holds its unique key (rule R8), as every store keeps it.
 *
 *  hold of the submit   field uniqueHold      field holds (now)   the key is free again
 *  "started"            started               started             with the first claim, or with an end before it
 *  "end"                end                   end                 with the end
 *  a duration           its milliseconds      none                when it has run out, whatever becomes of the job
 */
import type { UniqueHold } from "../../model/job/unique-key.ts";

/** Not above 0, because a positive number is a duration in milliseconds. */
export const uniqueHolds = { none: 0, started: -1, end: -2 } as const;

export function holdCode(hold: UniqueHold): number {
  return typeof hold === "number" ? hold : uniqueHolds[hold];
}

/** The hold that ends with an event of the job; none if it ends by time. */
export function holdsOf(code: number | null): number {
  return Math.min(code ?? uniqueHolds.none, uniqueHolds.none);
}

/** Until when a key that is taken now is held by time; null if the job holds it. */
export function heldUntilOf(code: number | null, now: number): number | null {
  return code !== null && code > uniqueHolds.none ? now + code : null;
}
