/** What the feed says of a step, for jobs that want such events: which entries of a run are one, and their text. */
import type { CallKind, EntryBody } from "./journal-entry.ts";

/**
 *  completed   it has its value            retrying   its code failed, and runs again
 *  failed      it failed for good          timed-out  a wait or an approval whose time was over first
 *  undone      its undo has run            undo-failed  its undo was given up
 */
export type StepOutcome = "completed" | "failed" | "retrying" | "timed-out" | "undone" | "undo-failed";

export interface StepEvent {
  /** Its name and count, such as "reserve#1"; before them the branch of a race or the item of an each. */
  readonly step: string;
  readonly stepKind: CallKind;
  readonly outcome: StepOutcome;
}

/** Null for an entry that is no news of a step. */
export function stepEventText(body: EntryBody): string | null {
  const outcome = outcomeOf(body);
  return outcome === null || !("as" in body) ? null : JSON.stringify([body.call, body.as, outcome]);
}

export function readStepEvent(text: unknown): StepEvent {
  const [step, stepKind, outcome] = JSON.parse(String(text)) as [string, CallKind, StepOutcome];
  return { step, stepKind, outcome };
}

function outcomeOf(body: EntryBody): StepOutcome | null {
  switch (body.kind) {
    case "result":
    case "arrived":
    case "decided":
    case "raced":
      return "completed";
    case "rang":
      return body.as === "sleep" ? "completed" : "timed-out";
    case "error":
      return "failed";
    case "failed":
      return "retrying";
    case "undone":
      return "undone";
    case "stuck":
      return body.retryInMs === null ? "undo-failed" : "retrying";
    default:
      return null;
  }
}
