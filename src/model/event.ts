/**
 * The catalogue of events as people get them: every kind, what it means and which fields it has beside those of all.
 * The kinds of the feed (event-kind.ts) are what stores keep; `eventsOfFeed` says as which events each is told. The
 * table of the guide is compared with this one.
 */
import { readAttemptLog } from "./attempt-log.ts";
import type { AttemptRecord, ErrorRecord } from "./attempt-log.ts";
import type { EventKind } from "./event-kind.ts";
import type { JobState } from "./job-state.ts";

/** What every event has; of an event about no job, what belongs to a job is null. */
interface AnyEvent {
  /** The place behind this event, to go on from: `mill.events({ from: cursor })`. */
  readonly cursor: string;
  /** By the store's clock. */
  readonly at: Date;
}

interface JobEvent extends AnyEvent {
  readonly jobId: string;
  readonly queue: string;
  readonly name: string;
  /** The state after the change; null once the job was removed. */
  readonly state: JobState | null;
  readonly attempt: number;
}

interface NoJob extends AnyEvent {
  readonly jobId: null;
  readonly name: null;
  readonly state: null;
  readonly attempt: null;
}

interface QueueEvent extends NoJob {
  readonly queue: string;
}

interface WorkerEvent extends NoJob {
  readonly queue: null;
  readonly worker: string;
}

interface Waits {
  /** When the job is due; null for at once. */
  readonly dueAt: Date | null;
}

interface Ends {
  /** Why the job ended. */
  readonly reason: string | null;
}

/** Of the attempt that ended; null where nobody measured it, or the job was gone when the event was read. */
interface Times {
  /** From the time the job was due to the start of its handler, in microseconds. */
  readonly waitedUs: number | null;
  /** Handler time, in microseconds. */
  readonly ranUs: number | null;
}

/** What the attempt threw; null where it threw nothing, or the job was gone when the event was read. */
interface Throws {
  readonly error: EventError | null;
}

export type EventError = Pick<ErrorRecord, "name" | "message" | "code">;

/** Each kind with its fields. */
interface EventsByKind {
  submitted: JobEvent & Waits;
  replaced: JobEvent & Waits;
  ready: JobEvent;
  claimed: JobEvent;
  started: JobEvent & { readonly startedAt: Date };
  progress: JobEvent & { readonly progress: unknown };
  completed: JobEvent & Times;
  failed: JobEvent & Ends & Throws & Times;
  "retry-scheduled": JobEvent &
    Waits & { readonly nextAttempt: number; readonly delayMs: number } & Throws &
    Times;
  snoozed: JobEvent & Waits;
  throttled: JobEvent & Waits;
  "handed-back": JobEvent;
  reclaimed: JobEvent & Waits;
  revoked: JobEvent & Waits;
  "cancel-asked": JobEvent;
  cancelled: JobEvent & Ends;
  expired: JobEvent & Ends;
  skipped: JobEvent & Ends;
  rescheduled: JobEvent & Waits;
  edited: JobEvent;
  replayed: JobEvent & Waits;
  removed: JobEvent;
  "queue-changed": QueueEvent & { readonly settings: unknown };
  "queue-empty": QueueEvent;
  "worker-joined": WorkerEvent;
  "worker-left": WorkerEvent;
}

export type EventName = keyof EventsByKind;

/** An event, or one of the given kinds: a union that its `kind` tells apart. */
export type MillraceEvent<Kind extends EventName = EventName> = {
  [Each in Kind]: { readonly kind: Each } & EventsByKind[Each];
}[Kind];

/** The fields of a kind beside those of every event of a job, a queue or a worker. */
type OwnField<Kind extends EventName> = Exclude<keyof EventsByKind[Kind], keyof JobEvent>;

interface Entry<Kind extends EventName> {
  readonly meaning: string;
  readonly fields: readonly OwnField<Kind>[];
}

const waits = ["dueAt"] as const;
const ends = ["reason"] as const;
const times = ["waitedUs", "ranUs"] as const;

export const eventCatalogue = {
  submitted: { meaning: "a job was enqueued", fields: waits },
  replaced: {
    meaning: "an enqueue with the same unique key took the place of this waiting job",
    fields: waits,
  },
  ready: { meaning: "a job that waited for its time may be claimed", fields: [] },
  claimed: { meaning: "a worker took the job, with a lease", fields: [] },
  started: {
    meaning: "the handler began; of a short run that waited in its worker, told with its end",
    fields: ["startedAt"],
  },
  progress: { meaning: "the handler reported progress", fields: ["progress"] },
  completed: { meaning: "the job ended well", fields: times },
  failed: {
    meaning: "the job ended without success, after its last attempt",
    fields: [...ends, "error", ...times],
  },
  "retry-scheduled": {
    meaning: "an attempt failed and the job waits for the next one",
    fields: [...waits, "nextAttempt", "delayMs", "error", ...times],
  },
  snoozed: { meaning: "the handler asked to come again later; the attempt is given back", fields: waits },
  throttled: { meaning: 'a limit was told "too many"; the attempt is given back', fields: waits },
  "handed-back": { meaning: "a worker returned the job unfinished; the attempt is given back", fields: [] },
  reclaimed: { meaning: "the lease of the job ran out and it waits again", fields: waits },
  revoked: { meaning: "an operator took the running job from its worker", fields: waits },
  "cancel-asked": { meaning: "somebody asked for the cancel of a running job", fields: [] },
  cancelled: { meaning: "the job was cancelled", fields: ends },
  expired: { meaning: "the job met its deadline or its time-to-live", fields: ends },
  skipped: { meaning: "the job will never run, because what it waited for became impossible", fields: ends },
  rescheduled: { meaning: "somebody gave the waiting job another time", fields: waits },
  edited: { meaning: "somebody changed the input, priority or headers of the waiting job", fields: [] },
  replayed: { meaning: "somebody brought the finished job back", fields: waits },
  removed: { meaning: "somebody deleted the job", fields: [] },
  "queue-changed": {
    meaning: "somebody changed the settings of a queue, paused or resumed it",
    fields: ["settings"],
  },
  "queue-empty": { meaning: "nothing of the queue is ready or running any more", fields: [] },
  "worker-joined": { meaning: "a worker started", fields: ["worker"] },
  "worker-left": { meaning: "a worker stopped", fields: ["worker"] },
} as const satisfies { readonly [Kind in EventName]: Entry<Kind> };

export const eventNames = Object.keys(eventCatalogue) as readonly EventName[];

export function isEventName(value: unknown): value is EventName {
  return typeof value === "string" && Object.hasOwn(eventCatalogue, value);
}

/** An event as the feed has it (FeedEvent of store/records.ts). */
export interface ToldEvent {
  readonly kind: EventKind;
  readonly state: JobState | null;
  readonly attempt: number;
  readonly extra: string | number | null;
  readonly note?: string;
}

/** The ends of attempts before which a start may be untold: the handler has run. */
const afterRuns: ReadonlySet<EventKind> = new Set([
  "completed",
  "failed",
  "retry-scheduled",
  "snoozed",
  "throttled",
]);
const untold = "!";

/** As which events one of the feed is told, at most two: a claim may be a start, and an end may tell of its start. */
export function eventsOfFeed({ kind, extra, note = "" }: ToldEvent): readonly (EventName | null)[] {
  if (kind === "claimed") return extra === null ? claimedOnly : claimedAndStarted;
  const name = kind === "promoted" ? "ready" : isEventName(kind) ? kind : null;
  return [note.startsWith(untold) && afterRuns.has(kind) ? "started" : null, name];
}

/** The kinds of the feed out of which these events are told. */
export function feedKindsOf(names: Iterable<EventName>): readonly EventKind[] {
  const kinds = new Set<EventKind>();
  for (const name of names) {
    if (name === "ready") kinds.add("promoted");
    else kinds.add(name);
    if (name === "started") for (const kind of ["claimed", ...afterRuns] as const) kinds.add(kind);
  }
  return [...kinds];
}

const claimedOnly = ["claimed", null] as const;
const claimedAndStarted = ["claimed", "started"] as const;

/** What an attempt log says about the attempt. */
export function fieldsOfAttempt(entry: AttemptRecord | undefined): Times & Throws {
  const { waitedUs = null, ranUs = null, error } = entry ?? {};
  if (error === undefined) return { error: null, waitedUs, ranUs };
  const { name, message, code } = error;
  return { error: { name, message, ...(code === undefined ? {} : { code }) }, waitedUs, ranUs };
}

/** Those of the kinds that are ends of attempts. */
function endFields({ note = "" }: ToldEvent): Times & Throws {
  const log = note.startsWith(untold) ? note.slice(untold.length) : note;
  return fieldsOfAttempt(log === "" ? undefined : readAttemptLog(log).entries[0]);
}

/** The fields of the kind itself, as far as the feed tells them. */
export function fieldsOf(name: EventName, told: ToldEvent, at: number): object {
  const { kind, state, attempt, extra } = told;
  const dueAt = state === "scheduled" && typeof extra === "number" ? extra : null;
  const waiting = { dueAt: dueAt === null ? null : new Date(dueAt) };
  const reason = typeof extra === "string" ? extra : null;
  switch (name) {
    case "started": {
      if (kind === "started" && typeof extra === "number") return { startedAt: new Date(extra) };
      return { startedAt: new Date(kind === "claimed" ? at : at - (endFields(told).ranUs ?? 0) / 1000) };
    }
    case "progress":
      // As the store keeps it; whoever reads it decodes it.
      return { progress: extra };
    case "completed": {
      const { waitedUs, ranUs } = endFields(told);
      return { waitedUs, ranUs };
    }
    case "failed":
      return { reason, ...endFields(told) };
    case "retry-scheduled": {
      const delayMs = dueAt === null ? 0 : dueAt - at;
      return { ...waiting, nextAttempt: attempt + 1, delayMs, ...endFields(told) };
    }
    case "cancelled":
    case "expired":
    case "skipped":
      return { reason };
    default:
      return (eventCatalogue[name].fields as readonly string[]).includes("dueAt") ? waiting : none;
  }
}

const none: object = {};
