/**
 * What travels with a job beside its input: headers, trace context, the schedule or topic that made it and its place in
 * a flow, one text that stores keep and hand back unread. Written at submit and by an edit before the start, read by
 * handlers and lists.
 */
import type { FlowMeta } from "../flow/flow-meta.ts";

interface JobMeta {
  readonly headers?: Readonly<Record<string, string>>;
  /** Trace context, handed on unread. */
  readonly trace?: Readonly<Record<string, string>>;
  readonly schedule?: MadeBy;
  readonly topic?: PublishedTo;
  /** Of a member of a flow. */
  readonly flow?: FlowMeta;
}

/** The topic that the job was published to, and the subscription that it was made for. */
export interface PublishedTo {
  readonly name: string;
  readonly subscription: string;
}

/** The schedule that made the job. */
export interface MadeBy {
  readonly name: string;
  /** The instant that the job stands for, in epoch milliseconds; null for a run by hand. */
  readonly tick: number | null;
}

/** Null when there is nothing of it: the common case costs a store nothing. */
export function writeMeta({ headers, trace, schedule, topic, flow }: JobMeta): string | null {
  const made = schedule ?? topic ?? flow;
  const isEmpty = headers === undefined && trace === undefined && made === undefined;
  return isEmpty ? null : JSON.stringify({ headers, trace, schedule, topic, flow });
}

export function viewMadeBy(
  by: MadeBy | undefined,
): { readonly name: string; readonly tick: Date | null } | null {
  return by === undefined ? null : { name: by.name, tick: by.tick === null ? null : new Date(by.tick) };
}

/** A text that cannot be read counts as saying nothing: damaged headers must not keep a job from being shown. */
export function readMeta(text: string | null): JobMeta {
  return parseMeta(text) ?? {};
}

/** Null for a text that cannot be read. */
export function parseMeta(text: string | null): JobMeta | null {
  if (text === null) return {};
  try {
    const meta = JSON.parse(text) as JobMeta | null;
    return typeof meta === "object" && meta !== null && isTexts(meta.headers) && isTexts(meta.trace)
      ? meta
      : null;
  } catch {
    return null;
  }
}

/** The text that was read last, and what it says: members of a flow that stand side by side have the same. */
let last: { readonly text: string | null; readonly meta: JobMeta | null } = { text: null, meta: {} };

/** For those who only look: a handler, which may change what it is given, gets an object of its own by `readMeta`. */
function lookAt(text: string | null): JobMeta | null {
  if (last.text !== text) last = { text, meta: parseMeta(text) };
  return last.meta;
}

export function isReadableMeta(text: string | null): boolean {
  return lookAt(text) !== null;
}

/** What the meta of a member says about its flow; nothing for any other job. */
export function readFlowMeta(text: string | null): FlowMeta {
  return lookAt(text)?.flow ?? {};
}

function isTexts(value: unknown): boolean {
  if (value === undefined) return true;
  return (
    typeof value === "object" &&
    value !== null &&
    Object.values(value).every((each) => typeof each === "string")
  );
}
