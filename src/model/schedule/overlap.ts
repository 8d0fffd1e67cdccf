/**
 * What a tick does while the job of the schedule's previous firing is still alive: waiting, running, suspended or about
 * to be retried. A job that has ended or was deleted does not count.
 *
 *   policy            previous alive                                    previous ended
 *   allow             fire                                              fire
 *   skip              skip                                              fire
 *   queue-one         queue, unless one is queued already: then skip    fire
 *   cancel-previous   fire, and cancel the previous                     fire
 */
import { isTerminal } from "../job/job-state.ts";
import type { JobState } from "../job/job-state.ts";
import { invalidOption } from "../option.ts";

const overlaps = ["allow", "skip", "queue-one", "cancel-previous"] as const;
export type Overlap = (typeof overlaps)[number];

export type OverlapDecision = "fire" | "skip" | "queue" | "cancel-and-fire";

export function readOverlap(value: unknown, what: string): Overlap {
  if (overlaps.includes(value as Overlap)) return value as Overlap;
  throw invalidOption(`${what} must be one of ${overlaps.map((each) => JSON.stringify(each)).join(", ")}.`);
}

/** @param previous the state of the previous firing's job; null if there is none, or it was deleted. */
export function isAlive(previous: JobState | null): boolean {
  return previous !== null && !isTerminal(previous);
}

export function decideOverlap(
  policy: Overlap,
  { isPreviousAlive, isOneQueued }: { readonly isPreviousAlive: boolean; readonly isOneQueued: boolean },
): OverlapDecision {
  if (policy === "allow" || !isPreviousAlive) return "fire";
  switch (policy) {
    case "skip":
      return "skip";
    case "queue-one":
      return isOneQueued ? "skip" : "queue";
    case "cancel-previous":
      return "cancel-and-fire";
  }
}
