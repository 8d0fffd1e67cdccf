/**
 * Why a job ended without success: every reason that Millrace itself gives. They are stable, because users filter
 * failed jobs by them. The reason of a cancelled job is the text of the cancel, if it had one.
 *
 * The page docs/reference/end-reasons.md is made from this catalogue.
 */
import type { TerminalState } from "./job-state.ts";

interface Entry<State extends TerminalState> {
  readonly state: State;
  /** One sentence for users. */
  readonly meaning: string;
}

function entry<State extends TerminalState>(state: State, meaning: string): Entry<State> {
  return { state, meaning };
}

export const endReasons = {
  "retries-exhausted": entry("failed", "The last of its attempts failed or timed out."),
  unrecoverable: entry("failed", "The handler threw `Unrecoverable`."),
  "not-retryable": entry(
    "failed",
    "The handler failed with an error that the job's `retryIf` does not retry.",
  ),
  "invalid-input": entry("failed", "The input does not match the schema of the handler, or cannot be read."),
  "invalid-result": entry("failed", "The handler's result does not match the schema, or cannot be stored."),
  "record-unreadable": entry("failed", "A part of the job's stored record cannot be read."),
  "crash-loop": entry(
    "failed",
    "It lost its lease in its last attempt too: its worker crashed or stood still.",
  ),
  "step-failed": entry(
    "failed",
    "A step of the run failed for good, or a wait timed out, and its handler threw that.",
  ),
  diverged: entry("failed", "The code of a run's handler does not match what its journal has recorded."),
  "journal-full": entry(
    "failed",
    "The journal of the run is full, because it did not call `step.continueWith`.",
  ),
  "undo-failed": entry("failed", "The run was to end badly, and an undo of its steps failed."),
  "throttles-exhausted": entry("failed", "It was throttled more often than the limit allows."),
  "no-handler": entry("failed", "No worker of its queue could run it for as long as `noHandlerGrace`."),
  "over-budget": entry("failed", "It waited when a budget was spent whose breach fails such jobs."),
  "node-failed": entry("failed", "Of a flow: one of its nodes failed or expired."),
  "no-list": entry("failed", "Of a map: what it was to map over is no list."),
  "too-many-failed": entry("failed", "Of a map or a group: more of its jobs failed than it tolerates."),
  "nobody-won": entry("failed", "Of a race: too few of its jobs completed."),
  deadline: entry("expired", "It did not end before its `deadline`."),
  "time-to-live": entry("expired", "It waited longer than its `ttl`."),
  unreachable: entry("skipped", "What it waited for can no longer happen."),
  "not-needed": entry(
    "cancelled",
    "Its flow was decided without it: a race was won, or another node failed.",
  ),
  "budget-spent": entry("cancelled", "It waited when a budget was spent whose breach cancels such jobs."),
  "next-tick": entry(
    "cancelled",
    "The next tick of its schedule came, and the overlap is `cancel-previous`.",
  ),
  "run-ended": entry("cancelled", "The durable run that invoked it had ended."),
  "caller-gave-up": entry("cancelled", "`mill.call` stopped waiting for it."),
  asked: entry("cancelled", "Somebody cancelled it without a reason."),
  "flow-closed": entry("cancelled", "It was to add nodes to a flow that had ended or was being cancelled."),
} as const satisfies Record<string, Entry<TerminalState>>;

/** The reason of a job that ended in one of these states. */
export type EndReason<State extends TerminalState = TerminalState> = {
  [Reason in keyof typeof endReasons]: (typeof endReasons)[Reason]["state"] extends State ? Reason : never;
}[keyof typeof endReasons];
