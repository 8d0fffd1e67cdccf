/**
 * The calls of a run as people read them, from its journal: what began and ended when, how often it failed, and how it
 * was undone. A call that was only opened is still waited for.
 */
import { branchPrefix } from "./call-key.ts";
import type { CallKind, EntryBody, JournalEntry } from "./journal-entry.ts";

/**
 *  completed   it has its value            failed      it failed for good, and the handler got the error
 *  waiting     it waits: for a signal, a time, a job, or its next try
 *  timed-out   its time was over first     closed      another branch won the race that it was made in
 *  undone      its undo has run            undo-failed its undo was given up
 */
export type StepState =
  | "completed"
  | "failed"
  | "waiting"
  | "timed-out"
  | "closed"
  | "undone"
  | "undo-failed";

export interface RunStep {
  /** The key of the call: its name, its count, and before them the branch or item that it was made in. */
  readonly call: string;
  readonly kind: CallKind;
  readonly state: StepState;
  /** When it was first recorded. */
  readonly at: number;
  /** Null while it is waited for. */
  readonly endedAt: number | null;
  /** How often its code has failed. */
  readonly failures: number;
  /** The name of the signal that it waits for, or has taken; null for none. */
  readonly signal: string | null;
  /** The business key at which it waits for the signal; null for none. */
  readonly businessKey: string | null;
  /** When its time is over; null for never. */
  readonly until: number | null;
  /** What it failed with, encoded; null if it has not failed. */
  readonly error: string | null;
}

type Draft = { -readonly [Key in keyof RunStep]: RunStep[Key] };

/** In the order in which they were first recorded. */
export function stepsOf(entries: readonly JournalEntry[]): readonly RunStep[] {
  const steps = new Map<string, Draft>();
  for (const { body, at } of entries) {
    if (body.kind === "raced") closeLosers(steps, body, at);
    if (!("call" in body)) continue;
    let step = steps.get(body.call);
    if (step === undefined) {
      step = {
        ...{ call: body.call, kind: "as" in body ? body.as : "invoke", state: "waiting", at, endedAt: null },
        ...{ failures: 0, signal: null, businessKey: null, until: null, error: null },
      };
      steps.set(body.call, step);
    }
    applyTo(step, body, at);
  }
  return [...steps.values()];
}

function applyTo(step: Draft, body: Extract<EntryBody, { readonly call: string }>, at: number): void {
  const end = (state: StepState): void => void Object.assign(step, { state, endedAt: at, until: null });
  switch (body.kind) {
    case "opened":
      step.signal = body.signal ?? null;
      step.businessKey = body.businessKey ?? null;
      step.until = body.endsAt ?? (body.endsInMs === undefined ? null : at + body.endsInMs);
      break;
    case "failed":
      Object.assign(step, { failures: body.attempt, error: body.error, until: at + body.retryInMs });
      break;
    case "escalated":
      step.until = at + body.endsInMs;
      break;
    case "error":
      Object.assign(step, { failures: step.failures + 1, error: body.error });
      end("failed");
      break;
    case "result":
    case "arrived":
    case "decided":
    case "raced":
      step.error = null;
      end("completed");
      break;
    case "rang":
      end(step.kind === "sleep" ? "completed" : "timed-out");
      break;
    case "child":
      if (body.isAnew === true) break;
      end(body.state === "completed" ? "completed" : "failed");
      if (body.state !== "completed") step.error = body.value;
      break;
    case "undone":
      end("undone");
      break;
    case "stuck":
      if (body.retryInMs === null) end("undo-failed");
      step.error = body.error;
      break;
    default:
      break;
  }
}

function closeLosers(steps: Map<string, Draft>, raced: EntryBody, at: number): void {
  for (const [call, step] of steps)
    if (step.endedAt === null && loses(raced, call))
      Object.assign(step, { state: "closed", endedAt: at, until: null });
}

/** Whether the call was made in a branch that has lost this race. */
export function loses(body: EntryBody, call: string): boolean {
  return (
    body.kind === "raced" &&
    call.startsWith(`${body.call}.`) &&
    !call.startsWith(branchPrefix(body.call, body.winner))
  );
}

/** Whether this entry ends a wait. */
export function endsWait(body: EntryBody, call: string): boolean {
  if (loses(body, call)) return true;
  const isOver = body.kind === "arrived" || body.kind === "rang" || body.kind === "error";
  return isOver && body.call === call;
}
