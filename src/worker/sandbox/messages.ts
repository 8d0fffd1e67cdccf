/**
 * The messages between a worker and a sandbox (a thread or a child process that runs handlers): one JSON object per
 * line, the same for every language. A run is one call of a handler; its number is in every message about it.
 *
 *   worker ──start──► sandbox                         the first line
 *   worker ◄──ready, or failed── sandbox              it can take jobs; or it cannot, and why
 *   worker ──run──► sandbox ──returned, threw──►      one run at a time; the next may be sent ahead
 *            ◄──progress, log, frame, effect── sandbox   any number during a run; they are not answered
 *            ◄──call── sandbox ──answer──►            during a run: reading KV, extending the lease, usage, flush
 *   worker ──abort──► sandbox                         stop the run, with the reason of the signal
 *   worker ──end──► sandbox                           no more jobs: end by yourself
 *
 * Inputs, results and other values are JSON. For a value that JSON cannot hold (dates, bigints, bytes, maps, sets) the
 * message has the field `tagged` instead, with the codec's text. A program that never uses such values need not read
 * it. A message about a run that has ended is dropped. A line that is no message ends the sandbox.
 */
import { jsonCodec } from "../../codec/json-codec.ts";
import { MillraceError } from "../../model/error.ts";
import type { ErrorRecord } from "../../model/job/attempt-log.ts";
import type { AbortReason } from "../control.ts";
import type { SentControl } from "./sent-error.ts";
import type { SentNode } from "./sent-node.ts";

export const protocolVersion = 1;

/** What a sandbox gets of the job besides its input. */
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
  /** What it was woken with, as JSON text; left out for nothing. */
  readonly attached?: string;
  readonly schedule: { readonly name: string; readonly tick: number | null } | null;
  readonly topic: { readonly name: string; readonly subscription: string } | null;
}

export type ToSandbox =
  | {
      readonly type: "start";
      readonly protocol: number;
      /** The URL of the handler's file, for a sandbox of Millrace's own. */
      readonly file?: string;
      /** The jobs that its handler may enqueue. */
      readonly jobs: readonly string[];
      /** The partitions of the store, by which the sandbox chooses the ids of follow-ups. */
      readonly partitions: number;
    }
  | { readonly type: "run"; readonly run: number; readonly job: SentJob }
  | { readonly type: "abort"; readonly run: number; readonly reason: AbortReason }
  | { readonly type: "answer"; readonly run: number; readonly call: number; readonly error?: ErrorRecord }
  | { readonly type: "end" };

export type EffectsWhen = "completion" | "failure";

/** A node of a flow that is submitted: its place, and its job unless it is a part. */
export interface SentMember {
  readonly node: SentNode;
  readonly name?: string;
  readonly options?: Readonly<Record<string, unknown>> | string;
}

export type FromSandbox =
  /**
   * @property aborts it listens for `abort` while it runs a job; a sandbox that does not gets SIGTERM at once.
   * @property ahead it may be sent more runs while it runs one. It begins them in order, each after it has sent the end
   * of the run before.
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
  /** With the field `value`. A summary is a merge patch. */
  | { readonly type: "frame"; readonly run: number; readonly isSummary?: true }
  | { readonly type: "log"; readonly run: number; readonly level: string; readonly message: string }
  | {
      readonly type: "effect";
      readonly run: number;
      readonly when?: EffectsWhen;
      readonly effect: "enqueue" | "kv.put" | "kv.delete" | "flow.add" | "flow.submit";
      /** The name of the job to enqueue, of the node's job, or of the flow. */
      readonly name?: string;
      /** Only with `flow.add`. */
      readonly node?: SentNode;
      /** Only with `flow.submit`, whose `input` is the list of their inputs. */
      readonly nodes?: readonly SentMember[];
      readonly returned?: SentNode["returned"];
      /** The name of the job that is made if the flow fails. */
      readonly onFailed?: string;
      /** Made by the sandbox; the worker makes one if it is left out. */
      readonly id?: string;
      readonly key?: string;
      /** A text is the codec's, for options with dates. */
      readonly options?: Readonly<Record<string, unknown>> | string;
    }
  | {
      readonly type: "call";
      readonly run: number;
      readonly call: number;
      readonly ask: "kv.get" | "extend" | "usage.report" | "flush";
      /** Of the KV, or the name of a budget. */
      readonly key?: string;
      readonly leaseMs?: number;
      readonly amount?: number;
      readonly options?: { readonly key?: string };
    };

type Message = ToSandbox | FromSandbox;

/** The one field of a message that may hold any value. */
export type ValueField = "input" | "result" | "data" | "fields" | "value";

export function lineOf(message: Message): string {
  return `${JSON.stringify(message)}\n`;
}

/** The line of a message with a value; the field is left out if the value is undefined. */
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

/** @returns the message, or a sentence that says what is wrong with the line. */
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

/**
 * Refused in the sandbox, where the error is thrown at the call; and in the worker, because a child may be written in
 * any language.
 */
export function notListed(handler: string, name: string): MillraceError {
  return new MillraceError(
    "invalid-option",
    `The handler of ${JSON.stringify(handler)} runs in a sandbox and may not enqueue ${JSON.stringify(name)}: name that job in \`jobs\` of its handler().`,
  );
}
