/**
 * The meta of a job: headers, trace context, the schedule or topic that made it, its place in a flow, and what it was
 * woken with. Stores keep it as one text and never read it. It is written at submit and by an edit of a waiting job,
 * and read by handlers and lists.
 */
import type { FlowMeta } from "../flow/flow-meta.ts";

interface JobMeta {
  /** A text if they are encrypted. */
  readonly headers?: Readonly<Record<string, string>> | string;
  /** Trace context, passed on unread. */
  readonly trace?: Readonly<Record<string, string>>;
  readonly schedule?: MadeBy;
  readonly topic?: PublishedTo;
  /** Of a member of a flow. */
  readonly flow?: FlowMeta;
  /** The encoded value with which the waiting job was woken last. */
  readonly attached?: string;
}

/** The topic that the job was published to, and the subscription that it was made for. */
export interface PublishedTo {
  readonly name: string;
  readonly subscription: string;
}

/** The schedule that made the job. */
export interface MadeBy {
  readonly name: string;
  /** The tick of the job, in epoch milliseconds; null for a manual run. */
  readonly tick: number | null;
}

/** Null for an empty meta, the common case, which costs a store nothing. */
export function writeMeta({ headers, trace, schedule, topic, flow, attached }: JobMeta): string | null {
  const other = schedule ?? topic ?? flow ?? attached;
  const isEmpty = headers === undefined && trace === undefined && other === undefined;
  return isEmpty ? null : JSON.stringify({ headers, trace, schedule, topic, flow, attached });
}

export function viewMadeBy(
  by: MadeBy | undefined,
): { readonly name: string; readonly tick: Date | null } | null {
  return by === undefined ? null : { name: by.name, tick: by.tick === null ? null : new Date(by.tick) };
}

/** An unreadable text counts as empty: a job with damaged headers must still be shown. */
export function readMeta(text: string | null): JobMeta {
  return parseMeta(text) ?? {};
}

/** Null for an unreadable text. */
export function parseMeta(text: string | null): JobMeta | null {
  if (text === null) return {};
  try {
    const meta = JSON.parse(text) as JobMeta | null;
    return typeof meta === "object" &&
      meta !== null &&
      (typeof meta.headers === "string" || isTexts(meta.headers)) &&
      isTexts(meta.trace)
      ? meta
      : null;
  } catch {
    return null;
  }
}

/** The text that was read last, with its meta: neighbouring members of a flow have the same. */
let last: { readonly text: string | null; readonly meta: JobMeta | null } = { text: null, meta: {} };

/**
 * A shared object, for readers that do not change it. A handler may change its meta, so it gets an object of its own
 * from `readMeta`.
 */
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
