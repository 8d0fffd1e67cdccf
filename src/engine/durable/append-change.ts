/**
 * The change that appends an entry of somebody else (a signal, the end of a child) to the journal of a durable run. A
 * suspended run becomes ready by it; a run in any other live state keeps its state, and its worker is told to read on.
 */
import { guardOfRound } from "../../model/durable/durable-marks.ts";
import type { HandBack, Update } from "../../model/job/change.ts";
import type { Append, Change } from "../../store/operations.ts";

/** A suspended run goes on. Its attempts count from 1 again, because the suspend has set them back. */
export const resume: HandBack = { to: "ready", event: "resumed", countsAttempt: 1 };
const signalled: Update = { to: "same", event: "signalled" };

/** @param round the entry belongs to this round and to no later one; absent for any. */
export function appendChange(id: string, append: Append, round?: number): Change {
  const marks = round === undefined ? {} : { marks: guardOfRound(round) };
  return {
    id,
    cases: [
      { guard: { states: ["suspended"], ...marks }, next: resume, append },
      { guard: { states: ["blocked", "scheduled", "ready", "running"], ...marks }, next: signalled, append },
    ],
  };
}
