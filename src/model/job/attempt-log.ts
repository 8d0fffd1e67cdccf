/**
 * The attempt log of a job: one entry per attempt, in order, kept as one text with the job and later with its history.
 * The step that ends an attempt writes it; users read it.
 *
 * Most jobs complete at their first attempt. Every job of a drain carries such a log, so it is not JSON but three
 * numbers: `attempt waitedUs ranUs`. The worker and the time of the end are in the job's own record.
 *
 * The log is bounded in every part: the record of a job that fails a thousand times with megabytes of stack must stay
 * small.
 */

export interface ErrorRecord {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly cause?: ErrorRecord;
}

/**
 * `lease-expired`: its worker died, was stopped or cut off, or its event loop was blocked. Only the worker could tell
 * which. `snoozed` and `throttled`: the attempt was given back, so it is no failure.
 */
export type AttemptOutcome =
  | "completed"
  | "failed"
  | "timed-out"
  | "lease-expired"
  | "abandoned"
  | "cancelled"
  | "expired"
  | "snoozed"
  | "throttled";

/**
 * The output of a handler that ran in a thread, a child process or as a command: the end of each stream, and how it
 * exited.
 */
export interface AttemptOutput {
  readonly stdout?: string;
  readonly stderr?: string;
  readonly exitCode?: number;
  readonly signal?: string;
}

export interface AttemptRecord {
  readonly attempt: number;
  readonly outcome: AttemptOutcome;
  /** Store time at which the attempt ended; absent for a completed one, whose end is the job's. */
  readonly at?: number;
  /** From the time the job was due to the start of its handler, in microseconds; absent after its lease expired. */
  readonly waitedUs?: number;
  /** Handler time, monotonic, in microseconds; absent if it could not be measured because the lease expired. */
  readonly ranUs?: number;
  readonly worker?: string;
  /** True for a lease that expired before the start of the handler was reported. */
  readonly unstarted?: boolean;
  readonly error?: ErrorRecord;
  readonly output?: AttemptOutput;
  /** How often in a row it was snoozed or throttled; absent for once. The other fields are those of the last time. */
  readonly count?: number;
  /** Of a throttled attempt. */
  readonly limit?: string;
}

/** The entry of a job that completed at its first attempt. */
type CompletedAlone = Required<Pick<AttemptRecord, "attempt" | "waitedUs" | "ranUs">> & {
  readonly outcome: "completed";
};

/** Why a worker handed the job back last. Attempts that were handed back have no entry. */
export interface HandBackNote {
  readonly reason: "key-missing" | "version-missing" | "unasked";
  /** How often the job was handed back in a row. */
  readonly count: number;
  readonly at: number;
  readonly worker: string;
  readonly message: string;
}

/** How often the job was throttled in this round, and by which limit last. Such attempts are given back. */
export interface ThrottleNote {
  readonly count: number;
  readonly limit: string;
  readonly at: number;
  readonly worker: string;
}

interface AttemptLog {
  readonly entries: readonly AttemptRecord[];
  /** How many entries in the middle were dropped because of the bound. */
  readonly dropped: number;
  /** How many replays have opened a new round of attempts; absent for none. */
  readonly replays?: number;
  /** Why the cancel of a running job was requested. The job ends with this reason when its attempt ends. */
  readonly cancelReason?: string;
  /** Kept until an attempt ends in another way. */
  readonly handedBack?: HandBackNote;
  readonly throttled?: ThrottleNote;
  /** What its attempts have used of budgets, by name; absent for nothing. */
  readonly spent?: Spent;
}

/** Amounts by the names of budgets. */
export type Spent = Readonly<Record<string, number>>;

const emptyLog: AttemptLog = { entries: [], dropped: 0 };

export const logEntriesMax = 50;
const keptFirst = 10;
const messageCharsMax = 2000;
const stackCharsMax = 4000;
const causeDepthMax = 5;
/** The maximum of each stream. */
export const attemptOutputCharsMax = 4000;
const cancelReasonCharsMax = 200;

/** Reads the text and leaves out unreadable entries: a damaged log must not break a list, a duty or a worker. */
export function readAttemptLog(text: string | null): AttemptLog {
  return text === null ? emptyLog : parseLog(text).log;
}

/** Whether every part of the text is readable. */
export function isLogReadable(text: string | null): boolean {
  return text === null || parseLog(text).isWhole;
}

/** The end of each number of a log that is not JSON: a space, and after the last one the end of the text. */
const space = 0x20;
const [digitZero, digitNine] = [0x30, 0x39];
const numberDigitsMax = 16;

/**
 * The entry of a job that completed at its first attempt, whose log begins here in the text; null for any other log.
 * Listeners read one per job of a drain. Reading digit by digit takes a fifth of the time of a regular expression.
 */
export function readCompletedAlone(text: string, from = 0): CompletedAlone | null {
  let [attempt, waitedUs, value] = [0, 0, 0];
  let [spaces, digits] = [0, 0];
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code >= digitZero && code <= digitNine && digits < numberDigitsMax) {
      value = value * 10 + (code - digitZero);
      digits += 1;
    } else if (code === space && digits > 0 && spaces < 2) {
      if (spaces === 0) attempt = value;
      else waitedUs = value;
      spaces += 1;
      value = digits = 0;
    } else return null;
  }
  return spaces === 2 && digits > 0 ? { attempt, outcome: "completed", waitedUs, ranUs: value } : null;
}

function parseLog(text: string): { readonly log: AttemptLog; readonly isWhole: boolean } {
  const completed = readCompletedAlone(text);
  if (completed !== null) return { log: { entries: [completed], dropped: 0 }, isWhole: true };
  try {
    const log = JSON.parse(text) as Partial<AttemptLog> | null;
    if (!Array.isArray(log?.entries)) return { log: emptyLog, isWhole: false };
    const { dropped = 0, cancelReason, replays, handedBack, throttled, spent } = log;
    const entries = log.entries.filter(isEntry);
    const read = {
      entries,
      dropped,
      ...(typeof replays === "number" ? { replays } : {}),
      ...(typeof cancelReason === "string" ? { cancelReason } : {}),
      ...(typeof handedBack?.count === "number" ? { handedBack } : {}),
      ...(typeof throttled?.count === "number" ? { throttled } : {}),
      ...(typeof spent === "object" ? { spent } : {}),
    };
    return { log: read, isWhole: entries.length === log.entries.length };
  } catch {
    return { log: emptyLog, isWhole: false };
  }
}

function isEntry(value: unknown): value is AttemptRecord {
  if (typeof value !== "object" || value === null) return false;
  const { attempt, outcome, at = 0, error } = value as Record<string, unknown>;
  const isNoted = typeof attempt === "number" && typeof outcome === "string" && typeof at === "number";
  return isNoted && (error === undefined || isErrorRecord(error));
}

function isErrorRecord(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { name, message, cause } = value as Record<string, unknown>;
  const isNamed = typeof name === "string" && typeof message === "string";
  return isNamed && (cause === undefined || isErrorRecord(cause));
}

export function appendAttempt(text: string | null, record: AttemptRecord): string {
  const { handedBack: _over, ...log } = readAttemptLog(text);
  const entries = [...log.entries, record];
  let dropped = log.dropped;
  while (entries.length > logEntriesMax) {
    entries.splice(keptFirst, 1);
    dropped += 1;
  }
  return JSON.stringify({ ...log, entries, dropped } satisfies AttemptLog);
}

/** The log of a job whose attempt was snoozed or throttled. Repeats in a row are one entry, so they push none out. */
export function appendGivenBack(text: string | null, record: AttemptRecord): string {
  const { handedBack: _over, ...log } = readAttemptLog(text);
  const last = log.entries.at(-1);
  const { outcome, attempt, limit } = record;
  if (last?.outcome !== outcome || last.attempt !== attempt || last.limit !== limit)
    return appendAttempt(text, record);
  const entries = log.entries.with(-1, { ...record, count: 1 + (last.count ?? 1) });
  return JSON.stringify({ ...log, entries } satisfies AttemptLog);
}

/** Whether the attempt did not complete and was not given back. */
export function isFailure({ outcome }: Pick<AttemptRecord, "outcome">): boolean {
  return outcome !== "completed" && outcome !== "snoozed" && outcome !== "throttled";
}

export interface Completion {
  readonly attempt: number;
  readonly waitedUs: number;
  readonly ranUs: number;
  readonly output?: AttemptOutput | null;
}

/** The log of a job that completes now. */
export function noteCompletion(text: string | null, completion: Completion): string {
  const { attempt, waitedUs, ranUs, output = null } = completion;
  if (text === null && output === null) return `${attempt} ${waitedUs} ${ranUs}`;
  const printed = output === null ? {} : { output };
  return appendAttempt(text, { attempt, outcome: "completed", waitedUs, ranUs, ...printed });
}

/** The log of a running job whose cancel is requested. A later reason replaces an earlier one. */
export function noteCancelReason(text: string | null, reason: string): string {
  const cancelReason = shortReason(reason);
  return JSON.stringify({ ...readAttemptLog(text), cancelReason } satisfies AttemptLog);
}

/** The log of a job that a worker hands back. The new note replaces the one before. */
export function noteHandBack(text: string | null, note: Omit<HandBackNote, "count">): string {
  const log = readAttemptLog(text);
  const handedBack = {
    ...note,
    message: cut(note.message, messageCharsMax),
    count: 1 + (log.handedBack?.count ?? 0),
  };
  return JSON.stringify({ ...log, handedBack } satisfies AttemptLog);
}

/** The log of a job whose attempt was throttled and is given back. */
export function noteThrottle(text: string | null, note: Omit<ThrottleNote, "count">): string {
  const log = readAttemptLog(text);
  const throttled = { ...note, count: 1 + (log.throttled?.count ?? 0) };
  return JSON.stringify({ ...log, throttled } satisfies AttemptLog);
}

/** The log with what all attempts so far have used of budgets. */
export function noteSpent(text: string | null, spent: Spent): string {
  return JSON.stringify({ ...readAttemptLog(text), spent } satisfies AttemptLog);
}

/** The log of a finished job that a replay brings back with a new round of attempts. */
export function noteNewRound(text: string | null): string {
  const { handedBack: _over, throttled: _counted, ...log } = readAttemptLog(text);
  return JSON.stringify({ ...log, replays: (log.replays ?? 0) + 1 } satisfies AttemptLog);
}

/** The log without what has failed, for a durable run that has got further; null if there is nothing to leave out. */
export function clearedLog(text: string | null): string | null {
  if (text === null) return null;
  const { entries, dropped: _dropped, handedBack, throttled, ...kept } = readAttemptLog(text);
  if (entries.length === 0 && handedBack === undefined && throttled === undefined) return null;
  return JSON.stringify({ ...kept, entries: [], dropped: 0 } satisfies AttemptLog);
}

/** Rounds count from 1. */
export function roundOf(text: string | null): number {
  return text === null ? 1 : 1 + (readAttemptLog(text).replays ?? 0);
}

export function shortReason(reason: string): string {
  return reason.slice(0, cancelReasonCharsMax);
}

/** Describes any thrown value, even one that is not an Error or whose getters throw. */
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
