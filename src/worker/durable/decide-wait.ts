/**
 * Decides an open wait or approval by the signals that nobody has taken. What it decides is appended before the handler
 * learns of it.
 */
import { decideApproval } from "../../model/durable/approval-decision.ts";
import type { EntryBody } from "../../model/durable/journal-entry.ts";
import type { SignalBuffer, UnreadSignal } from "../../model/durable/signal-buffer.ts";
import type { LiveCall } from "./live-call.ts";
import type { RunCodec } from "./run-settings.ts";

interface ReadSignal {
  readonly signal: UnreadSignal;
  readonly value: unknown;
  readonly text: string | null;
}

interface WaitDecision {
  /** Null while the wait stays open. */
  readonly outcome: EntryBody | null;
  /** Signals of the wrong shape, which are refused once and for all. */
  readonly refused: readonly EntryBody[];
}

/** Takes what it decides on, and what it refuses, out of the buffer. */
export function decideWait(call: LiveCall, signals: SignalBuffer, codec: RunCodec): WaitDecision {
  const refused: EntryBody[] = [];
  const { signal: name = "", businessKey = null } = call.plan;
  const taking = { call: call.key, businessKey, until: call.wakeAt };
  const readable = signals.unreadFor(name, taking).flatMap((signal): ReadSignal[] => {
    const read = codec.readSignal(name, signal.value);
    if ("value" in read) return [{ signal, ...read }];
    signals.take(signal.number);
    refused.push({ kind: "refused", signal: signal.number, why: read.refused });
    return [];
  });
  const decide = call.kind === "approval" ? takeAnswers : takeSignal;
  try {
    return { outcome: decide(call, readable, signals), refused };
  } catch (error) {
    // The condition of the handler threw.
    return {
      outcome: { kind: "error", call: call.key, as: call.kind, error: codec.encodeError(error) },
      refused,
    };
  }
}

function takeSignal(
  { key, kind: as, plan }: LiveCall,
  readable: readonly ReadSignal[],
  signals: SignalBuffer,
): EntryBody | null {
  const taken = readable.find(({ value }) => plan.where === undefined || plan.where(value));
  if (taken === undefined) return null;
  const { signal, text } = taken;
  signals.take(signal.number);
  const made = text === signal.value ? {} : { value: text };
  return { kind: "arrived", call: key, as, signal: signal.number, ...made };
}

function takeAnswers(
  { key, kind: as, plan }: LiveCall,
  readable: readonly ReadSignal[],
  signals: SignalBuffer,
): EntryBody | null {
  const answers = readable.map(({ signal, value }) => ({ ...signal, approves: plan.where?.(value) ?? true }));
  const decision = decideApproval(answers, plan.needed ?? 1);
  if (decision.kind === "open") return null;
  for (const number of decision.signals) signals.take(number);
  const taken = decision.signals.map((number) => readable.find(({ signal }) => signal.number === number));
  const isMade = taken.some((each) => each?.text !== each?.signal.value);
  const made = isMade ? { values: taken.map((each) => each?.text ?? null) } : {};
  return { kind: "decided", call: key, as, signals: decision.signals, approved: decision.approved, ...made };
}
