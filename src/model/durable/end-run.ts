/**
 * The one place that decides what the end of a durable run becomes, whoever ends it: its worker, an operator, a duty or
 * its flow.
 *
 *   completed, or diverged         ends
 *   no step has an undo            ends
 *   a step has an undo             `ending` is appended, and the run is ready: it undoes its steps, then it ends so
 *   its undos run, and it is       failed, because an undo does not end
 *   given up meanwhile
 *
 * The marks that were read are part of the guard, because a worker may record the first undo meanwhile.
 */
import { finishAs, scheduleOf } from "../job/after-run.ts";
import type { ChangeNext, Finish, Schedule, SettleNext } from "../job/change.ts";
import type { DecidedPolicy } from "../job/job-policy.ts";
import { isTerminal } from "../job/job-state.ts";
import type { JobState } from "../job/job-state.ts";
import { durableMarks, hasMark, roundOf } from "./durable-marks.ts";
import { keyInRound } from "./journal-entry.ts";
import type { NewEntry } from "./journal-entry.ts";
import { decideEnd } from "./undo-plan.ts";
import type { Ending } from "./undo-plan.ts";

export interface RunEnding<Next> {
  readonly next: Next | Finish | Schedule;
  /** Of the field `durable`, these bits are still so. */
  readonly marks?: { readonly mask: number; readonly is: number };
  /** Appended in the same step. */
  readonly append?: NewEntry;
}

/** What a run that is to be ended looks like. */
export interface EndedRun {
  readonly policy: DecidedPolicy;
  /** Its field `durable`. */
  readonly durable: number;
}

const mask = durableMarks.hasUndo | durableMarks.isEnding;

/** A guard: nobody has recorded an undo, or an ending, since this was read. */
export function marksAsRead(durable: number): { readonly mask: number; readonly is: number } {
  return { mask, is: durable & mask };
}

/** @param next any other change than an end stays as it is, and so does every change of a plain job. */
export function endRun<Next extends ChangeNext | SettleNext>(
  { policy, durable }: EndedRun,
  next: Next,
  strideMs: number,
): RunEnding<Next> {
  if (policy.durable === null || !isFinish(next)) return { next };
  const marks = marksAsRead(durable);
  const { to, reason } = next;
  if (to === "skipped") return { next, marks };
  const isEnding = hasMark(durable, "isEnding");
  const ending: Ending | null = isEnding ? { state: "failed", reason: "undo-failed" } : null;
  switch (decideEnd({ state: to, reason }, { hasUndo: hasMark(durable, "hasUndo"), ending })) {
    case "end":
      return { next, marks };
    case "undo":
      return { next: finishAs(policy, "failed", "undo-failed"), marks };
    case "append-ending": {
      const body = { kind: "ending", state: to as Ending["state"], reason: reason ?? to } as const;
      return {
        next: placeForUndos(policy, strideMs),
        marks,
        append: { key: keyInRound(body, roundOf(durable)), body },
      };
    }
  }
}

/** The run undoes its steps, with attempts of its own. */
function placeForUndos(policy: DecidedPolicy, strideMs: number): Schedule {
  const due = { inMs: 0 };
  return { ...scheduleOf(policy, due, "resumed", strideMs), attempt: 0, countsAttempt: 1 };
}

function isFinish(next: ChangeNext | SettleNext): next is Finish {
  return isTerminal(next.to as JobState) && next.to !== ("deleted" as string);
}

/** Whether a live run may be deleted: the undos of its steps would never run. */
export function mayDelete({ policy, durable }: EndedRun): boolean {
  return policy.durable === null || !hasMark(durable, "hasUndo");
}
