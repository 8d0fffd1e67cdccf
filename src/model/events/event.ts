/**
 * The catalogue of events as users get them: each kind with its meaning and the fields that only it has. Stores keep
 * the kinds of the feed (event-kind.ts); `firstEventOf` and `secondEventOf` say which events each becomes. A test
 * compares the table of the guide with this one.
 */
import { readAttemptLog, readCompletedAlone } from "../job/attempt-log.ts";
import type { AttemptRecord, ErrorRecord } from "../job/attempt-log.ts";
import { readStepEvent } from "../durable/step-event.ts";
import type { StepEvent } from "../durable/step-event.ts";
import type { EventKind } from "./event-kind.ts";
import { placeOfId } from "../flow/flow-meta.ts";
import type { FlowPlace } from "../flow/flow-meta.ts";
import type { FlowCounts } from "../flow/decide-flow.ts";
import type { JobState } from "../job/job-state.ts";

/** The fields of every event. If it is about no job, the fields of a job are null. */
interface AnyEvent {
  /** The position after this event, to go on from: `mill.events({ from: cursor })`. */
  readonly cursor: string;
  /** By the store's clock. */
  readonly at: Date;
}

interface JobEvent extends AnyEvent {
  readonly jobId: string;
  readonly queue: string;
  readonly name: string;
  /** The state after the change; null once the job was deleted. */
  readonly state: JobState | null;
  readonly attempt: number;
  /** For a member of a flow: which flow, and the path of its node. Absent for other jobs. */
  readonly flow?: FlowPlace;
}

/** An event about a flow: it has no job, and its name is the flow's. */
interface FlowEvent extends AnyEvent {
  readonly jobId: null;
  readonly queue: null;
  readonly state: null;
  readonly attempt: null;
  readonly name: string;
  readonly flowId: string;
}

interface FlowEnd extends FlowEvent, Ends {
  /** How its nodes ended; null if the flow was deleted before the event was read. */
  readonly counts: FlowCounts | null;
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

/** An event about a budget, or about one of its keys. */
interface BudgetEvent extends NoJob {
  readonly queue: null;
  readonly budget: string;
  readonly key: string | null;
  /** What was counted in the period by then. */
  readonly amount: number;
  readonly hard: number | null;
  readonly soft: number | null;
  /** When the period ends. */
  readonly until: Date;
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

/**
 * Times of the attempt that ended; null if they were not measured, or the job was deleted before the event was read.
 */
interface Times {
  /** From the time the job was due to the start of its handler, such as 0.4. */
  readonly waitedMs: number | null;
  /** Handler time, such as 0.4. */
  readonly ranMs: number | null;
}

/** What the attempt threw; null if it threw nothing, or the job was deleted before the event was read. */
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
  output: JobEvent;
  step: JobEvent & StepEvent;
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
  suspended: JobEvent;
  resumed: JobEvent & Waits;
  signalled: JobEvent;
  freed: JobEvent & Waits;
  rescheduled: JobEvent & Waits;
  edited: JobEvent;
  replayed: JobEvent & Waits;
  deleted: JobEvent;
  "flow-submitted": FlowEvent;
  "flow-completed": FlowEnd;
  "flow-failed": FlowEnd;
  "flow-cancelled": FlowEnd;
  "queue-changed": QueueEvent & { readonly settings: unknown };
  "queue-empty": QueueEvent;
  "budget-warned": BudgetEvent;
  "budget-breached": BudgetEvent;
  "worker-joined": WorkerEvent;
  "worker-left": WorkerEvent;
}

export type EventName = keyof EventsByKind;

/** An event, or one of the given kinds: a union discriminated by `kind`. */
export type MillraceEvent<Kind extends EventName = EventName> = {
  [Each in Kind]: { readonly kind: Each } & EventsByKind[Each];
}[Kind];

/** The fields of a kind that events of a job, a flow, a queue or a worker do not all have. */
type OwnField<Kind extends EventName> = Exclude<keyof EventsByKind[Kind], keyof JobEvent>;

interface Entry<Kind extends EventName> {
  readonly meaning: string;
  readonly fields: readonly OwnField<Kind>[];
}

const waits = ["dueAt"] as const;
const ends = ["reason"] as const;
const times = ["waitedMs", "ranMs"] as const;
const ofBudget = ["budget", "key", "amount", "hard", "soft", "until"] as const;
const flowEnds = ["flowId", "reason", "counts"] as const;

export const eventCatalogue = {
  submitted: { meaning: "a job was enqueued", fields: waits },
  replaced: {
    meaning: "an enqueue with the same unique key took the place of this waiting job",
    fields: waits,
  },
  ready: { meaning: "a job that waited for its time may be claimed", fields: [] },
  claimed: { meaning: "a worker took the job, with a lease", fields: [] },
  started: {
    meaning: "the handler began; a short run that waited in its worker reports it with its end",
    fields: ["startedAt"],
  },
  progress: { meaning: "the handler reported progress", fields: ["progress"] },
  step: {
    meaning:
      "a step or a wait of a durable run ended, failed or was undone; only of jobs with `durable: { events: true }`",
    fields: ["step", "stepKind", "outcome"],
  },
  output: {
    meaning: "the handler wrote frames (`mill.frames` reads them); only for listeners that name this kind",
    fields: [],
  },
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
  throttled: { meaning: 'a limit got the answer "too many"; the attempt is given back', fields: waits },
  "handed-back": { meaning: "a worker returned the job unfinished; the attempt is given back", fields: [] },
  reclaimed: { meaning: "the lease of the job ran out and it waits again", fields: waits },
  revoked: { meaning: "an operator took the running job from its worker", fields: waits },
  "cancel-asked": { meaning: "somebody asked for the cancel of a running job", fields: [] },
  cancelled: { meaning: "the job was cancelled", fields: ends },
  expired: { meaning: "the job met its deadline or its time-to-live", fields: ends },
  skipped: { meaning: "the job will never run, because what it waited for became impossible", fields: ends },
  suspended: {
    meaning: "a durable run waits for a signal, a job or a time, and holds neither slot nor lease",
    fields: [],
  },
  resumed: {
    meaning: "a durable run goes on: what it waited for has come, its time is over, or it begins a new round",
    fields: waits,
  },
  signalled: {
    meaning: "a signal, or the end of a job that it started, reached a durable run that was not suspended",
    fields: [],
  },
  freed: {
    meaning: "what the job of a flow waited for has come: it may be claimed, or waits for its time",
    fields: waits,
  },
  rescheduled: { meaning: "somebody gave the waiting job another time", fields: waits },
  edited: { meaning: "somebody changed the input, priority, headers or tags of the waiting job", fields: [] },
  replayed: { meaning: "somebody brought the finished job back", fields: waits },
  deleted: { meaning: "somebody deleted the job", fields: [] },
  "flow-submitted": { meaning: "a flow was submitted, with all of its jobs", fields: ["flowId"] },
  "flow-completed": { meaning: "all nodes of a flow have ended, and it ended well", fields: flowEnds },
  "flow-failed": { meaning: "all nodes of a flow have ended, and one had failed", fields: flowEnds },
  "flow-cancelled": {
    meaning: "all nodes of a flow have ended, and its cancel had been asked for",
    fields: flowEnds,
  },
  "queue-changed": {
    meaning: "somebody changed the settings of a queue, paused or resumed it",
    fields: ["settings"],
  },
  "queue-empty": { meaning: "nothing of the queue is ready or running any more", fields: [] },
  "budget-warned": {
    meaning: "a budget reached its soft bound, the first time in its period",
    fields: ofBudget,
  },
  "budget-breached": { meaning: "a budget reached its hard bound", fields: ofBudget },
  "worker-joined": { meaning: "a worker started", fields: ["worker"] },
  "worker-left": {
    meaning: "a worker stopped, or its process was killed (reported within two minutes)",
    fields: ["worker"],
  },
} as const satisfies { readonly [Kind in EventName]: Entry<Kind> };

export const eventNames = Object.keys(eventCatalogue) as readonly EventName[];

export function isEventName(value: unknown): value is EventName {
  return typeof value === "string" && Object.hasOwn(eventCatalogue, value);
}

/** An event of the feed (FeedEvent of store/records.ts). */
export interface RecordedEvent {
  readonly kind: EventKind;
  readonly state: JobState | null;
  readonly attempt: number;
  readonly extra: string | number | null;
  readonly note?: string;
}

/** The ends of attempts whose start may not have been emitted yet: the handler has run. */
const afterRuns: ReadonlySet<EventKind> = new Set([
  "completed",
  "failed",
  "retry-scheduled",
  "snoozed",
  "throttled",
  "suspended",
  "resumed",
]);
const unreported = "!";

/**
 * The events that one event of the feed becomes, at most two, in this order: a claim may be a start, and an end may
 * contain its start. Two functions, because a pair per event would be garbage.
 */
export function firstEventOf({ kind, note }: RecordedEvent): EventName | null {
  if (kind === "claimed") return kind;
  return note !== undefined && note.startsWith(unreported) && afterRuns.has(kind) ? "started" : null;
}

export function secondEventOf({ kind, extra }: Pick<RecordedEvent, "kind" | "extra">): EventName | null {
  if (kind === "claimed") return extra === null ? null : "started";
  if (kind === "promoted") return "ready";
  return isEventName(kind) ? kind : internal[kind];
}

/** The kinds of the feed that no user gets; the compiler names a kind that is neither here nor in the catalogue. */
const internal: Readonly<Record<Exclude<EventKind, EventName | "promoted">, null>> = {
  "passed-on": null,
};

const flowEvents: Readonly<Partial<Record<EventKind, EventName>>> = {
  submitted: "flow-submitted",
  completed: "flow-completed",
  failed: "flow-failed",
  cancelled: "flow-cancelled",
};

/** The event of a flow that an event of the flow's own job becomes; null for all others, which are internal. */
export function flowEventOf({ kind }: RecordedEvent): EventName | null {
  return flowEvents[kind] ?? null;
}

/** The kinds of the feed that these events are made of. */
export function feedKindsOf(names: Iterable<EventName>): readonly EventKind[] {
  const kinds = new Set<EventKind>();
  const ofFlows = Object.entries(flowEvents) as readonly (readonly [EventKind, EventName])[];
  for (const name of names) {
    const ofFlow = ofFlows.find(([, event]) => event === name);
    kinds.add(ofFlow?.[0] ?? (name === "ready" ? "promoted" : (name as EventKind)));
    if (name === "started") for (const kind of ["claimed", ...afterRuns] as const) kinds.add(kind);
  }
  return [...kinds];
}

/** The fields that come from the entry of the attempt log. */
export function fieldsOfAttempt(entry: AttemptRecord | undefined): Times & Throws {
  const { waitedUs, ranUs, error } = entry ?? unmeasured;
  const [waitedMs, ranMs] = [measuredMs(waitedUs), measuredMs(ranUs)];
  if (error === undefined) return { error: null, waitedMs, ranMs };
  const { name, message, code } = error;
  return { error: { name, message, ...(code === undefined ? {} : { code }) }, waitedMs, ranMs };
}

/** The fields of kinds that end an attempt. */
function endFields({ note = "", attempt }: RecordedEvent): Times & Throws {
  return fieldsOfAttempt(attemptOfNote(note, attempt));
}

/** The log may begin with earlier attempts. */
function attemptOfNote(note: string, attempt: number): AttemptRecord | undefined {
  const from = note.startsWith(unreported) ? unreported.length : 0;
  if (note.length === from) return undefined;
  const alone = readCompletedAlone(note, from);
  return alone ?? readAttemptLog(note.slice(from)).entries.findLast((entry) => entry.attempt === attempt);
}

/** What an event takes from the route of its job. */
interface EventRoute {
  readonly queue: string;
  readonly name: string;
}

/**
 * The event of a job as users get it. The frequent kinds are written out: a listener of all events spends most of its
 * time here, and copying fields from object to object would double it.
 */
export function eventOfJob(
  kind: EventName,
  emitted: RecordedEvent & { readonly id: string },
  at: Date,
  { queue, name }: EventRoute,
  cursor: string,
): MillraceEvent {
  const { id: jobId, state, attempt } = emitted;
  const place = placeOfId(jobId);
  if (place !== null) {
    const shared = { kind, cursor, at, jobId, queue, name, state, attempt, flow: place };
    return { ...shared, ...fieldsOf(kind, emitted, at.getTime()) } as MillraceEvent;
  }
  switch (kind) {
    case "claimed":
      return { kind, cursor, at, jobId, queue, name, state, attempt };
    case "started": {
      const startedAt = emitted.kind === "claimed" ? at : startOf(emitted, at);
      return { kind, cursor, at, jobId, queue, name, state, attempt, startedAt };
    }
    case "completed": {
      const { waitedUs, ranUs } = attemptOfNote(emitted.note ?? "", emitted.attempt) ?? unmeasured;
      const [waitedMs, ranMs] = [measuredMs(waitedUs), measuredMs(ranUs)];
      return { kind, cursor, at, jobId, queue, name, state, attempt, waitedMs, ranMs };
    }
    default: {
      const shared = { kind, cursor, at, jobId, queue, name, state, attempt };
      return { ...shared, ...fieldsOf(kind, emitted, at.getTime()) } as MillraceEvent;
    }
  }
}

/** The event of a flow, which has no job. */
export function eventOfFlow(
  kind: EventName,
  emitted: RecordedEvent & { readonly id: string },
  at: Date,
  { name }: EventRoute,
  cursor: string,
): MillraceEvent {
  const noJob = { jobId: null, queue: null, name, state: null, attempt: null };
  return {
    kind,
    cursor,
    at,
    ...noJob,
    flowId: emitted.id,
    ...fieldsOf(kind, emitted, at.getTime()),
  } as MillraceEvent;
}

const unmeasured: Partial<Pick<AttemptRecord, "waitedUs" | "ranUs" | "error">> = {};

/** The log of attempts has microseconds; users get milliseconds, as everywhere. */
function measuredMs(us: number | undefined): number | null {
  return us === undefined ? null : us / 1000;
}

/** The start, from its report or from the end of the attempt. */
function startOf(emitted: RecordedEvent, at: Date): Date {
  if (emitted.kind === "started" && typeof emitted.extra === "number") return new Date(emitted.extra);
  return new Date(at.getTime() - (attemptOfNote(emitted.note ?? "", emitted.attempt)?.ranUs ?? 0) / 1000);
}

/** The fields of the kind itself, as far as the feed has them. */
function fieldsOf(name: EventName, emitted: RecordedEvent, at: number): object {
  const { state, attempt, extra } = emitted;
  const dueAt = state === "scheduled" && typeof extra === "number" ? extra : null;
  const waiting = { dueAt: dueAt === null ? null : new Date(dueAt) };
  const reason = typeof extra === "string" ? extra : null;
  switch (name) {
    case "progress":
      // Encoded, as the store keeps it; the reader decodes it.
      return { progress: extra };
    case "step":
      return readStepEvent(extra);
    case "failed":
      return { reason, ...endFields(emitted) };
    case "retry-scheduled": {
      const delayMs = dueAt === null ? 0 : dueAt - at;
      return { ...waiting, nextAttempt: attempt + 1, delayMs, ...endFields(emitted) };
    }
    case "flow-completed":
    case "flow-failed":
    case "flow-cancelled":
      // Counts are read from the flow itself.
      return { reason, counts: null };
    case "cancelled":
    case "expired":
    case "skipped":
      return { reason };
    default:
      return (eventCatalogue[name].fields as readonly string[]).includes("dueAt") ? waiting : none;
  }
}

const none: object = {};
