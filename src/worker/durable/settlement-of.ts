/** What the handler gets of an entry that settles its call. */
import type { EntryBody } from "../../model/durable/journal-entry.ts";
import type { UnreadSignal } from "../../model/durable/signal-buffer.ts";
import type { LiveCall, Settlement } from "./live-call.ts";
import type { RunCodec } from "./run-settings.ts";

type Settling = Extract<
  EntryBody,
  { readonly kind: "arrived" | "decided" | "rang" | "result" | "error" | "child" }
>;
type Taken = UnreadSignal | undefined;

/** @param taken the signals that the entry takes, in its order; undefined for one that is not there. */
export function settlementOf(
  body: Settling,
  call: LiveCall,
  taken: readonly Taken[],
  codec: RunCodec,
): Settlement {
  switch (body.kind) {
    case "arrived":
      return { kind: "value", value: arrivedValue(call, taken[0], codec, body.value) };
    case "decided": {
      const answers = taken.flatMap((signal, index) =>
        signal === undefined ? [] : [answerOf(signal, codec, body.values?.[index])],
      );
      return { kind: "value", value: { approved: body.approved, timedOut: false, answers } };
    }
    case "rang":
      return call.plan.rang?.() ?? { kind: "value", value: undefined };
    case "result":
      return { kind: "value", value: codec.decode(body.value) };
    case "error":
      return failure(call, body.error, codec);
    case "child":
      if (body.state === "completed") return { kind: "value", value: codec.decode(body.value) };
      return failure(
        call,
        body.value ?? codec.encodeError(new Error(`The job ended as ${body.state}.`)),
        codec,
      );
  }
}

function failure(call: LiveCall, text: string, codec: RunCodec): Settlement {
  const cause = codec.decodeError(text);
  return { kind: "error", error: call.plan.failed?.(cause) ?? cause };
}

function arrivedValue(call: LiveCall, signal: Taken, codec: RunCodec, made?: string | null): unknown {
  if (signal === undefined) return undefined;
  const value = takenValue(signal, codec, made);
  return call.plan.arrived?.(signal, value) ?? value;
}

function answerOf(
  signal: UnreadSignal,
  codec: RunCodec,
  made?: string | null,
): { source: string | null; at: Date; value: unknown } {
  return { source: signal.source, at: new Date(signal.at), value: takenValue(signal, codec, made) };
}

/**
 * A schema reads a signal once, when a wait takes it. A replay hands out the same, whatever became of the schema.
 * @param made what the schema made of it; undefined if it changed nothing.
 */
function takenValue({ value }: UnreadSignal, codec: RunCodec, made?: string | null): unknown {
  return codec.decode(made === undefined ? value : made);
}
