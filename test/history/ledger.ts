/**
 * The evidence sorted for checking: per job its specs, its timeline out of the feed and its leases; per call what it
 * carried. Nothing is judged here.
 */
import { hasMark } from "../../src/model/durable/durable-marks.ts";
import type { EventKind } from "../../src/model/events/event-kind.ts";
import type { JobState } from "../../src/model/job/job-state.ts";
import { readMeta } from "../../src/model/job/job-meta.ts";
import { routeOf } from "../../src/model/routing/route.ts";
import type { RouteContent } from "../../src/model/routing/route.ts";
import { isLocked } from "../../src/store/operations.ts";
import type { Settle, SettleAnswer } from "../../src/store/operations.ts";
import type { Entry, FrameChunk, JobRecord, NewJob } from "../../src/store/records.ts";
import type { Effect, Evidence, Operation, StoreCall } from "./history.ts";
import type { Invariant } from "./invariants.ts";
import { readJournalActs } from "./journal-acts.ts";
import type { JournalAct } from "./journal-acts.ts";
import { readLane } from "./lane-of.ts";
import type { Lane } from "./lane-of.ts";
import { OperatorActs } from "./operator-acts.ts";

/** News of a running attempt, which leave the job as it was, and what is about no job. */
const changesNothing: ReadonlySet<EventKind> = new Set([
  ...(["started", "progress", "signalled", "output"] as const),
  ...(["queue-changed", "queue-empty", "worker-joined", "worker-left"] as const),
]);

export interface TimelineEvent {
  readonly kind: EventKind;
  readonly rev: number;
  readonly state: JobState | null;
  readonly attempt: number;
  readonly extra: string | number | null;
  readonly at: number;
  /** Of the feed record. */
  readonly number: number;
}

/** One lease as a claim, or a look for lost ones, handed it out. */
export interface Lease {
  readonly id: string;
  readonly seq: number;
  readonly fence: number;
  readonly rev: number;
  readonly attempt: number;
  readonly durable: number;
  readonly dueAt: number;
  readonly claimedAt: number;
  readonly leaseMs: number;
  readonly owner: string;
  readonly isAdopted: boolean;
  readonly call: StoreCall;
}

/** A write under a fence and its answer. */
export interface FencedWrite {
  readonly what: "settle" | "extend" | "record";
  readonly id: string;
  readonly seq: number;
  readonly fence: number;
  /** A record that appended is `ok`. */
  readonly answer: SettleAnswer["kind"] | null;
  readonly call: StoreCall;
  /** Of an extend: store time of the answer, and what was added to it. */
  readonly now?: number;
  readonly leaseMs?: number;
  readonly settle?: Settle;
}

/** What a route stands for, as far as the submitted jobs tell. */
export type RouteAsks = Pick<RouteContent, "queue" | "requires" | "gates" | "lanes">;

export interface Ledger {
  readonly evidence: Evidence;
  /** Everything that was ever submitted under this id; more than one when it was replaced or submitted again. */
  readonly specs: ReadonlyMap<string, readonly NewJob[]>;
  readonly timelines: ReadonlyMap<string, readonly TimelineEvent[]>;
  readonly leases: readonly Lease[];
  /** The lease that a claimed event gave, by its job and rev. */
  leaseOf(id: string, event: { readonly rev: number; readonly at: number }): Lease | undefined;
  /** By the number of the route. */
  readonly routes: ReadonlyMap<number, RouteAsks>;
  /** Of the jobs that have one, and always the same. */
  readonly lanes: ReadonlyMap<string, Lane>;
  readonly writes: readonly FencedWrite[];
  readonly records: ReadonlyMap<string, JobRecord>;
  /** Ids of runs whose ending has begun, which clears a requested cancel. */
  readonly ending: ReadonlySet<string>;
  /** What was done to journals, in the order of the calls. */
  readonly journalActs: readonly JournalAct[];
  readonly journals: ReadonlyMap<string, readonly Entry[]>;
  readonly outputs: ReadonlyMap<string, readonly FrameChunk[]>;
  readonly effects: ReadonlyMap<string, readonly Effect[]>;
  readonly acts: OperatorActs;
  /** Ids that were submitted more than once: handlers cannot tell their lives apart. */
  readonly reborn: ReadonlySet<string>;
}

export interface Violation {
  readonly invariant: Invariant;
  readonly message: string;
  readonly id?: string;
}

export const leaseKey = (lease: { readonly id: string; readonly fence: number }): string =>
  `${lease.id}#${lease.fence}`;

/**
 * An id that was deleted may be submitted again: then it is another job, with another seq, and its fences begin anew.
 */
export const lifeKey = (lease: {
  readonly id: string;
  readonly seq: number;
  readonly fence: number;
}): string => `${lease.id}@${lease.seq}#${lease.fence}`;

/**
 * Whether one call had its effect before the other's: by order where that is known, else only when one had ended before
 * the other began.
 */
export function isBefore(one: Operation, other: Operation): boolean {
  if (one.order !== null && other.order !== null) return one.order < other.order;
  return spanOf(one).toUs < spanOf(other).fromUs;
}

/** The time in which the effect of an operation lies: while it was at the store where that is known. */
export function spanOf(operation: Operation): { readonly fromUs: number; readonly toUs: number } {
  const { invokedUs, answeredUs } = operation;
  const { reachedUs, leftUs } = "request" in operation ? operation : {};
  return { fromUs: reachedUs ?? invokedUs, toUs: leftUs ?? answeredUs ?? Infinity };
}

/** A call that may have had an effect: everything but a known failure. */
export function mayHaveHappened(call: StoreCall): boolean {
  return call.answer !== null || call.seen === "unknown";
}

export function openLedger(evidence: Evidence): Ledger {
  const specs = new Map<string, NewJob[]>();
  const leases: Lease[] = [];
  const writes: FencedWrite[] = [];
  for (const operation of evidence.operations) {
    readSpecs(operation, specs);
    readLeases(operation, leases);
    readWrites(operation, writes);
  }
  const timelines = new Map<string, TimelineEvent[]>();
  for (const { number, at, events } of evidence.snapshot.feed) {
    for (const { id, kind, rev, state, attempt, extra } of events)
      if (!changesNothing.has(kind)) pushTo(timelines, id, { kind, rev, state, attempt, extra, at, number });
  }
  const claims = Map.groupBy(leases, ({ id, rev }) => `${id}#${rev}`);
  const reborn = new Set<string>();
  for (const [id, events] of timelines)
    if (events.filter(({ kind }) => kind === "submitted").length > 1) reborn.add(id);
  const journalActs = readJournalActs(evidence.operations);
  const isEnding = ({ entries }: JournalAct): boolean =>
    entries.some(({ marks = 0 }) => hasMark(marks, "isEnding"));
  const effects = new Map<string, Effect[]>();
  for (const effect of evidence.effects) pushTo(effects, leaseKey(effect), effect);
  return {
    evidence,
    specs,
    timelines,
    leases,
    leaseOf: (id, { rev, at }) => claims.get(`${id}#${rev}`)?.find(({ claimedAt }) => claimedAt === at),
    routes: readRoutes(specs),
    lanes: readLanes(specs),
    writes,
    records: new Map(evidence.snapshot.jobs.map((record) => [record.id, record])),
    ending: new Set(journalActs.filter(isEnding).map(({ id }) => id)),
    journalActs,
    outputs: new Map(evidence.snapshot.outputs.map(({ id, chunks }) => [id, chunks])),
    journals: new Map(evidence.snapshot.journals.map(({ id, entries }) => [id, entries])),
    effects,
    acts: new OperatorActs(evidence.operations),
    reborn,
  };
}

/** Of a flow, a part of one, or what makes the jobs of a list: no handler of an application runs it. */
export function runsNoHandler({ specs }: Pick<Ledger, "specs">, id: string): boolean {
  const { part, expands } = readMeta(specs.get(id)?.[0]?.meta ?? null).flow ?? {};
  return part !== undefined || expands !== undefined;
}

export function pushTo<Key, Value>(map: Map<Key, Value[]>, key: Key, value: Value): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [value]);
  else list.push(value);
}

function readSpecs(operation: Operation, specs: Map<string, NewJob[]>): void {
  if (operation.kind === "submit") {
    for (const [index, unit] of operation.request.entries()) {
      const answer = operation.answer?.[index];
      for (const [place, job] of unit.jobs.entries()) {
        pushTo(specs, job.id, job);
        // A replaced holder lives on with another's spec.
        if (answer?.kind === "ok" && answer.hows[place] === "replaced")
          pushTo(specs, answer.ids[place] as string, job);
      }
    }
  } else if (operation.kind === "settleIfLeased" || operation.kind === "recordIfLeased") {
    for (const { effects } of operation.request)
      for (const job of effects?.jobs ?? []) pushTo(specs, job.id, job);
  }
}

function readRoutes(specs: ReadonlyMap<string, readonly NewJob[]>): Map<number, RouteAsks> {
  const routes = new Map<number, RouteAsks>();
  for (const spec of [...specs.values()].flat()) {
    const route = routeOf(spec);
    routes.set(route.number, route);
  }
  return routes;
}

function readLanes(specs: ReadonlyMap<string, readonly NewJob[]>): Map<string, Lane> {
  const lanes = new Map<string, Lane>();
  for (const [id, all] of specs) {
    const lane = readLane(all);
    if (lane !== null) lanes.set(id, lane);
  }
  return lanes;
}

function readLeases(call: Operation, leases: Lease[]): void {
  if (call.kind !== "claim" && call.kind !== "extendIfLeased") return;
  const isAdopted = call.kind === "extendIfLeased";
  const jobs = call.kind === "claim" ? call.answer?.jobs : call.answer?.others;
  const { owner, leaseMs } = call.request;
  for (const { id, seq, fence, rev, attempt, durable, dueAt, claimedAt } of jobs ?? [])
    leases.push({ id, seq, fence, rev, attempt, durable, dueAt, claimedAt, leaseMs, owner, isAdopted, call });
}

/** What was locked was not written. */
function readWrites(call: Operation, writes: FencedWrite[]): void {
  if (call.kind === "settleIfLeased") {
    for (const [index, settle] of call.request.entries()) {
      const answer = call.answer?.[index];
      if (isLocked(answer)) continue;
      const { id, seq, fence } = settle;
      writes.push({ what: "settle", id, seq, fence, answer: answer?.kind ?? null, call, settle });
    }
  } else if (call.kind === "recordIfLeased") {
    for (const [index, { id, seq, fence }] of call.request.entries()) {
      const answer = call.answer?.[index];
      if (isLocked(answer)) continue;
      const kind = typeof answer === "object" ? answer.kind : (answer ?? null);
      writes.push({ what: "record", id, seq, fence, answer: kind === "appended" ? "ok" : kind, call });
    }
  } else if (call.kind === "extendIfLeased") {
    const { leaseMs } = call.request;
    for (const [index, { id, seq, fence }] of call.request.leases.entries()) {
      const answer = call.answer?.answers[index] ?? null;
      const now = call.answer?.now;
      // A cancel that was asked for comes with a lease that was extended all the same.
      const isExtended = answer === "ok" || answer === "cancel-asked";
      writes.push({
        what: "extend",
        id,
        seq,
        fence,
        answer: isExtended ? "ok" : answer === "unknown" ? null : answer,
        call,
        leaseMs,
        ...(now === undefined ? {} : { now }),
      });
    }
  }
}
