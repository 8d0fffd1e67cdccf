/**
 * The catalogue of events as people get them: every kind, what it means and which fields it has beside those of all.
 * The kinds of the feed (event-kind.ts) are what stores keep; `eventOfFeed` says which kind each is told as. The
 * table of the guide is compared with this one.
 */
import type { EventKind } from "./event-kind.ts";
import type { JobState } from "./job-state.ts";

/** What every event of a job has. */
interface JobEvent {
  /** The place behind this event, to go on from: `mill.events({ from: cursor })`. */
  readonly cursor: string;
  /** By the store's clock. */
  readonly at: Date;
  readonly jobId: string;
  readonly queue: string;
  readonly name: string;
  /** The state after the change; null once the job was removed. */
  readonly state: JobState | null;
  readonly attempt: number;
}

interface Waits {
  /** When the job is due; null for at once. */
  readonly dueAt: Date | null;
}

interface Ends {
  /** Why the job ended. */
  readonly reason: string | null;
}

/** The fields of each kind beside those of all events. */
interface EventFields {
  submitted: Waits;
  replaced: Waits;
  ready: {};
  claimed: {};
  completed: {};
  failed: Ends;
  "retry-scheduled": Waits & {
    readonly nextAttempt: number;
    readonly delayMs: number;
  };
  snoozed: Waits;
  throttled: Waits;
  "handed-back": {};
  reclaimed: Waits;
  revoked: Waits;
  "cancel-asked": {};
  cancelled: Ends;
  expired: Ends;
  skipped: Ends;
  rescheduled: Waits;
  edited: {};
  replayed: Waits;
  removed: {};
}

export type EventName = keyof EventFields;

type EventOf<Kind extends EventName> = JobEvent & { readonly kind: Kind } & EventFields[Kind];

/** An event, or one of the given kinds: a union that its `kind` tells apart. */
export type MillraceEvent<Kind extends EventName = EventName> = {
  [Each in Kind]: EventOf<Each>;
}[Kind];

interface Entry<Kind extends EventName> {
  readonly meaning: string;
  readonly fields: readonly (keyof EventFields[Kind])[];
}

const waits = ["dueAt"] as const;
const ends = ["reason"] as const;

export const eventCatalogue = {
  submitted: { meaning: "a job was enqueued", fields: waits },
  replaced: {
    meaning: "an enqueue with the same unique key took the place of this waiting job",
    fields: waits,
  },
  ready: { meaning: "a job that waited for its time may be claimed", fields: [] },
  claimed: { meaning: "a worker took the job, with a lease", fields: [] },
  completed: { meaning: "the job ended well", fields: [] },
  failed: { meaning: "the job ended without success, after its last attempt", fields: ends },
  "retry-scheduled": {
    meaning: "an attempt failed and the job waits for the next one",
    fields: [...waits, "nextAttempt", "delayMs"],
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
} as const satisfies { readonly [Kind in EventName]: Entry<Kind> };

export const eventNames = Object.keys(eventCatalogue) as readonly EventName[];

export function isEventName(value: unknown): value is EventName {
  return typeof value === "string" && Object.hasOwn(eventCatalogue, value);
}

/** As what a kind of the feed is told; null for one that no store tells yet. */
export function eventOfFeed(kind: EventKind): EventName | null {
  if (kind === "promoted") return "ready";
  return isEventName(kind) ? kind : null;
}

/** What a change of a job is told with, as the feed has it (FeedEvent of store/records.ts). */
export interface ToldChange {
  readonly kind: EventName;
  readonly state: JobState | null;
  readonly attempt: number;
  readonly extra: string | number | null;
}

/** The fields of the kind itself. */
export function fieldsOf({ kind, state, attempt, extra }: ToldChange, at: number): object {
  const fields: readonly string[] = eventCatalogue[kind].fields;
  if (fields.length === 0) return none;
  if (fields[0] === "reason") return { reason: typeof extra === "string" ? extra : null };
  const dueAt = state === "scheduled" && typeof extra === "number" ? extra : null;
  const waiting = { dueAt: dueAt === null ? null : new Date(dueAt) };
  if (kind !== "retry-scheduled") return waiting;
  return { ...waiting, nextAttempt: attempt + 1, delayMs: dueAt === null ? 0 : dueAt - at };
}

const none: object = {};
