/**
 * What telemetry and the metrics of the process see of a durable run: the code of its steps as it is called, and its
 * waits. A step that is replayed calls no code and is not seen.
 */
import type { Needs } from "../../engine/services.ts";
import type { RunNote } from "../../engine/attempts/telemetry.ts";
import { nameOfCall } from "../../model/durable/call-key.ts";
import type { EntryBody } from "../../model/durable/journal-entry.ts";
import type { Attempt } from "../run/attempt.ts";
import type { RunObserver } from "./run-settings.ts";

export type ObserveNeeds = Needs<"telemetry" | "metrics" | "platform">;

export function observeRun(
  { telemetry, metrics, platform }: ObserveNeeds,
  attempt: Attempt,
): RunObserver | undefined {
  if (telemetry === null && metrics === null) return undefined;
  return {
    async step(call, tried, work) {
      const { key, kind } = call;
      const { title } = attempt;
      const beganUs = platform.monotonicUs();
      const ended = (isFailed: boolean): void =>
        metrics?.stepEnded(title, platform.monotonicUs() - beganUs, isFailed);
      const kindOfStep = kind === "run-in" ? kind : "run";
      const running = { step: key, name: nameOfCall(key), kind: kindOfStep, attempt: tried } as const;
      try {
        const value = await (telemetry?.step === undefined ? work() : telemetry.step(attempt, running, work));
        ended(false);
        return value;
      } catch (error) {
        // An abort is no failure of the step: its code runs again.
        if (call.running?.signal.aborted !== true) ended(true);
        throw error;
      }
    },
    recorded(body) {
      const note = telemetry?.noted === undefined ? null : noteOf(body);
      if (note !== null) telemetry?.noted?.(attempt, note);
    },
  };
}

const words: Readonly<Partial<Record<EntryBody["kind"], RunNote["what"]>>> = {
  opened: "wait-began",
  arrived: "signal-arrived",
  decided: "approval-decided",
  rang: "time-over",
  escalated: "escalated",
};

/** Null for what a span of a step says, or nobody needs. */
function noteOf(body: EntryBody): RunNote | null {
  if (!("as" in body)) return null;
  const what = body.kind === "result" && body.as === "enqueue" ? "enqueued" : words[body.kind];
  if (what === undefined) return null;
  return { what, step: body.call, signal: (body.kind === "opened" ? body.signal : undefined) ?? null };
}
