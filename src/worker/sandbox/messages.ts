/**
 * What a worker and a sandbox (a thread or a child process that runs handlers) say to each other: one JSON object per
 * line, the same for every language. A run is one call of a handler; its number is in every message about it.
 *
 *   worker ──start──► sandbox                         the first line of all
 *   worker ◄──ready, or failed── sandbox              it can take jobs; or it cannot, and why
 *   worker ──run──► sandbox ──returned, threw──►      one run at a time; the next may be sent ahead
 *            ◄──progress, log, effect── sandbox       while it runs, any number, nothing is answered
 *            ◄──call── sandbox ──answer──►            while it runs: reading KV, extending the lease
 *   worker ──abort──► sandbox                         stop what you do: the reason of the signal
 *   worker ──end──► sandbox                           no more jobs: end by yourself
 *
 * Inputs, results and other values are JSON. Where JSON is not enough (dates, bigints, bytes, maps, sets), the message
 * has the field `tagged` in the place of the value: the codec's text, which a program that never meets such values need
 * not read. What a sandbox says about a run that is over is dropped; what is no message at all ends the sandbox.
 */
import { jsonCodec } from "../../codec/json-codec.ts";
import { MillraceError } from "../../model/error.ts";
import type { ErrorRecord } from "../../model/job/attempt-log.ts";
import type { AbortReason } from "../control.ts";
import type { SentControl } from "./sent-error.ts";
import type { SentNode } from "./sent-node.ts";

export const protocolVersion = 1;

/** What a sandbox is told of the job beside its input. */
export interface SentJob {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly attempt: number;
  readonly isLastAttempt: boolean;
  /** Epoch milliseconds. */
  readonly createdAt: number;
  readonly worker: string;
  readonly host: string;
  readonly idempotencyKey: string;
  readonly fence: { readonly value: number; readonly key: string };
  readonly headers: Readonly<Record<string, string>>;
  readonly trace: Readonly<Record<string, string>>;
  readonly schedule: { readonly name: string; readonly tick: number | null } | null;
  readonly topic: { readonly name: string; readonly subscription: string } | null;
}

export type ToSandbox =
  | {
      readonly type: "start";
      readonly protocol: number;
      /** The address of the handler's file, for a sandbox of Millrace's own. */
      readonly file?: string;
      /** The jobs that its handler may enqueue. */
      readonly jobs: readonly string[];
      /** Of the store: where follow-ups must lie. */
      readonly partitions: number;
    }
  | { readonly type: "run"; readonly run: number; readonly job: SentJob }
  | { readonly type: "abort"; readonly run: number; readonly reason: AbortReason }
  | { readonly type: "answer"; readonly run: number; readonly call: number; readonly error?: ErrorRecord }
  | { readonly type: "end" };

export type EffectsWhen = "completion" | "failure";

export type FromSandbox =
  /**
   * @property aborts it listens for `abort` while it runs a job; one that does not is ended by SIGTERM at once.
   * @property ahead it may be sent further runs while it runs one, which it begins in their order, each after it has
   * told the end of the one before.
   */
  | { readonly type: "ready"; readonly aborts?: boolean; readonly ahead?: boolean }
  | { readonly type: "failed"; readonly error: ErrorRecord }
  /** @property ranUs how long the handler took, if the sandbox measures it. */
  | { readonly type: "returned"; readonly run: number; readonly ranUs?: number }
  | {
      readonly type: "threw";
      readonly run: number;
      readonly error: ErrorRecord;
      readonly control?: SentControl;
      readonly ranUs?: number;
    }
  | {
      readonly type: "progress";
      readonly run: number;
      readonly value: number;
      readonly message?: string;
    }
  | { readonly type: "log"; readonly run: number; readonly level: string; readonly message: string }
  | {
      readonly type: "effect";
      readonly run: number;
      readonly when?: EffectsWhen;
      readonly effect: "enqueue" | "kv.put" | "kv.delete" | "flow.add";
      /** Of the job to enqueue, or of the node's. */
      readonly name?: string;
      /** Of `flow.add`. */
      readonly node?: SentNode;
      /** Minted by the sandbox; the worker mints one where it is left out. */
      readonly id?: string;
      readonly key?: string;
      /** A text is the codec's, for options with dates. */
      readonly options?: Readonly<Record<string, unknown>> | string;
    }
  | {
      readonly type: "call";
      readonly run: number;
      readonly call: number;
      readonly ask: "kv.get" | "extend";
      readonly key?: string;
      readonly leaseMs?: number;
    };

type Message = ToSandbox | FromSandbox;

/** The name of the one field of a message that may hold any value. */
export type ValueField = "input" | "result" | "data" | "fields" | "value";

export function lineOf(message: Message): string {
  return `${JSON.stringify(message)}\n`;
}

/** The line of a message with a value in it; no field at all for undefined. */
export function lineWith(message: Message, field: ValueField, value: unknown): string {
  if (value === undefined) return lineOf(message);
  const text = jsonCodec.encode(value, field);
  const rest = JSON.stringify(message).slice(0, -1);
  return text.startsWith("~")
    ? `${rest},"tagged":${JSON.stringify(text)}}\n`
    : `${rest},"${field}":${text}}\n`;
}

/** The value that `lineWith` has put in. */
export function valueIn(message: Message, field: ValueField): unknown {
  const { tagged, [field]: plain } = message as { tagged?: unknown } & { [Field in ValueField]?: unknown };
  if (tagged === undefined) return plain;
  if (typeof tagged === "string") return jsonCodec.decode(tagged);
  throw new MillraceError("payload-unreadable", "The field tagged of a message must be a text.");
}

const quotedCharsMax = 200;

/** @returns the message in the line; a sentence that says what is wrong where there is none. */
export function readMessage<Read extends Message>(line: string): Read | string {
  let message: unknown;
  try {
    message = JSON.parse(line);
  } catch {
    message = null;
  }
  if (typeof message === "object" && message !== null && typeof (message as Read).type === "string")
    return message as Read;
  const quoted = line.length > quotedCharsMax ? `${line.slice(0, quotedCharsMax)}…` : line;
  return `it wrote a line that is no message: ${JSON.stringify(quoted)}`;
}

/** Refused on both sides: here because a child may be written in any language, there because it is heard at once. */
export function notListed(handler: string, name: string): MillraceError {
  return new MillraceError(
    "invalid-option",
    `The handler of ${JSON.stringify(handler)} runs in a sandbox and may not enqueue ${JSON.stringify(name)}: name that job in \`jobs\` of its handler().`,
  );
}
