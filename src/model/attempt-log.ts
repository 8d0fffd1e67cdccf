/**
 * What is remembered of attempts that did not succeed: one entry per failed, timed-out, crashed, abandoned or cancelled
 * attempt, in order, kept as one text with the job and later with its history. Whoever ends the attempt writes it, and
 * people read it.
 *
 * The log is bounded in every part: a job that fails a thousand times with megabytes of stack must not grow its record
 * without end.
 */

export interface ErrorRecord {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly cause?: ErrorRecord;
}

export type AttemptOutcome = "failed" | "timed-out" | "crashed" | "abandoned" | "cancelled";

export interface AttemptRecord {
  readonly attempt: number;
  readonly outcome: AttemptOutcome;
  /** Store time at which the attempt ended. */
  readonly at: number;
  /** Handler time, monotonic, in microseconds; absent when nobody could measure it (a crash). */
  readonly ranUs?: number;
  readonly worker?: string;
  /** True for a crash before anybody reported that the handler had started. */
  readonly unstarted?: boolean;
  readonly error?: ErrorRecord;
}

interface AttemptLog {
  readonly entries: readonly AttemptRecord[];
  /** How many entries in the middle were dropped to stay inside the bound. */
  readonly dropped: number;
  /** Why the cancel of a running job was asked for. Whoever ends the attempt ends the job with this reason. */
  readonly cancelReason?: string;
}

const emptyLog: AttemptLog = { entries: [], dropped: 0 };

export const logEntriesMax = 50;
const keptFirst = 10;
const messageCharsMax = 2000;
const stackCharsMax = 4000;
const causeDepthMax = 5;
const cancelReasonCharsMax = 200;

/** A text that cannot be read counts as empty: a damaged log must not take the job, or its worker, down with it. */
export function readAttemptLog(text: string | null): AttemptLog {
  if (text === null) return emptyLog;
  try {
    const log = JSON.parse(text) as Partial<AttemptLog> | null;
    if (!Array.isArray(log?.entries)) return emptyLog;
    const { entries, dropped = 0, cancelReason } = log;
    return { entries, dropped, ...(typeof cancelReason === "string" ? { cancelReason } : {}) };
  } catch {
    return emptyLog;
  }
}

export function appendAttempt(text: string | null, record: AttemptRecord): string {
  const log = readAttemptLog(text);
  const entries = [...log.entries, record];
  let dropped = log.dropped;
  while (entries.length > logEntriesMax) {
    entries.splice(keptFirst, 1);
    dropped += 1;
  }
  return JSON.stringify({ ...log, entries, dropped } satisfies AttemptLog);
}

/** The log of a running job whose cancel is asked for. A later reason replaces an earlier one. */
export function noteCancelReason(text: string | null, reason: string): string {
  const cancelReason = shortReason(reason);
  return JSON.stringify({ ...readAttemptLog(text), cancelReason } satisfies AttemptLog);
}

export function shortReason(reason: string): string {
  return reason.slice(0, cancelReasonCharsMax);
}

/** Describes any thrown value, also one that is no Error or whose getters throw. */
export function describeError(thrown: unknown, depth = 0): ErrorRecord {
  if (typeof thrown !== "object" || thrown === null) {
    return { name: typeof thrown, message: cut(safeText(thrown), messageCharsMax) };
  }
  const name = readText(thrown, "name") ?? "Error";
  const message = readText(thrown, "message") ?? safeText(thrown);
  const code = readText(thrown, "code");
  const stack = readText(thrown, "stack");
  const cause = depth < causeDepthMax ? readProperty(thrown, "cause") : undefined;
  return {
    name: cut(name, 200),
    message: cut(message, messageCharsMax),
    ...(code === undefined ? {} : { code: cut(code, 200) }),
    ...(stack === undefined ? {} : { stack: cut(stack, stackCharsMax) }),
    ...(cause === undefined || cause === null ? {} : { cause: describeError(cause, depth + 1) }),
  };
}

function readProperty(value: object, key: string): unknown {
  try {
    return (value as Record<string, unknown>)[key];
  } catch {
    return undefined;
  }
}

function readText(value: object, key: string): string | undefined {
  const property = readProperty(value, key);
  if (typeof property === "string") return property;
  return typeof property === "number" ? String(property) : undefined;
}

function safeText(value: unknown): string {
  try {
    return typeof value === "object" ? (JSON.stringify(value) ?? "") : String(value);
  } catch {
    return "a value that cannot be shown";
  }
}

function cut(text: string, charsMax: number): string {
  return text.length <= charsMax ? text : `${text.slice(0, charsMax)}…`;
}
