/**
 * Builders for what crosses the store contract: every field has a plain default, a test names only what it is about.
 */
import type { Finish, HandBack, Update, Delete, Schedule } from "../../src/model/job/change.ts";
import type { TerminalState } from "../../src/model/job/job-state.ts";
import type { GateUse } from "../../src/model/limits/gate.ts";
import { laneOrderOf } from "../../src/model/routing/lane.ts";
import { routeNumber } from "../../src/model/routing/route.ts";
import type { Change, ChangeCase, ClaimRequest, Guard, Settle } from "../../src/store/operations.ts";
import type { ProcessFacts, Registration, WorkerRegistration } from "../../src/engine/fleet/registration.ts";
import type { Add, DocAdd, DocWrite, GatePut, LeaseRef, NewJob } from "../../src/store/records.ts";

export function aJob(given: Partial<NewJob> & { readonly id: string }): NewJob {
  return {
    digest: null,
    queue: "mail",
    name: "send",
    input: `"${given.id}"`,
    policy: null,
    meta: null,
    tags: null,
    due: { inMs: 0 },
    rankBase: 0,
    rankSlope: 1,
    deadline: null,
    ttlMs: null,
    unique: null,
    ...given,
  };
}

export function aClaim(given: Partial<ClaimRequest> & { readonly max?: number } = {}): ClaimRequest {
  const { max = 10, ...rest } = given;
  return { owner: "w1", leaseMs: 1000, offers: [{ routes: [aRoute()], max }], ...rest };
}

/** The number of the route that `aJob` with the same queue, name, capabilities, gates and lane waits on. */
export function aRoute(
  given: {
    queue?: string;
    name?: string;
    requires?: readonly string[];
    gates?: readonly GateUse[] | undefined;
    laneKey?: string;
    laneStep?: number | null;
  } = {},
): number {
  const { queue = "mail", name = "send", requires, gates } = given;
  return routeNumber(queue, name, requires, gates, laneOrderOf(given));
}

export function aGate(key: string, given: Partial<GatePut> = {}): GatePut {
  const open = { cap: null, rate: null, closed: null, isIntakeClosed: false, perKey: null, body: null };
  return { key, guard: "any", ...open, ...given };
}

export function finish(to: TerminalState = "completed", given: Partial<Finish> = {}): Finish {
  return {
    to,
    event: to,
    reason: to === "completed" ? null : "because",
    result: null,
    keepMs: null,
    ...given,
  };
}

export function schedule(inMs: number, given: Partial<Schedule> = {}): Schedule {
  return {
    to: "scheduled",
    event: "retry-scheduled",
    due: { inMs },
    rankBase: 0,
    rankSlope: 1,
    countsAttempt: 1,
    ttlMs: null,
    ...given,
  };
}

export const handBack: HandBack = { to: "ready", event: "handed-back", countsAttempt: 0 };
export const remove: Delete = { to: "deleted", event: "deleted" };
export const askCancel: Update = { to: "same", event: "cancel-asked", cancelAsked: true };

export function replay(inMs = 0, given: Partial<Schedule> = {}): Schedule {
  return schedule(inMs, { event: "replayed", attempt: 0, clearsPassedDeadline: true, ...given });
}

export function aSettle(lease: LeaseRef, next: Settle["next"], given: Partial<Settle> = {}): Settle {
  return { id: lease.id, seq: lease.seq, fence: lease.fence, next, attempts: null, ...given };
}

export function aChange(
  id: string,
  states: Guard["states"],
  next: ChangeCase["next"],
  guard: Partial<Guard> = {},
): Change {
  return { id, cases: [{ guard: { states, ...guard }, next }] };
}

export function aDoc(id: string, body: string | null, given: Partial<DocWrite> = {}): DocWrite {
  return { kind: "kv", id, body, guard: "any", ...given };
}

export function anAdd(id: string, by: number, add: Partial<Add> = {}, given: Partial<DocAdd> = {}): DocAdd {
  return { kind: "kv", id, add: { by, ...add }, ...given };
}

/** A process with one worker. */
export function aRegistration(
  worker: string,
  given: Partial<ProcessFacts> = {},
  own: Partial<WorkerRegistration> = {},
): Registration {
  const aWorker: WorkerRegistration = {
    ...{ label: "w", mode: "working", queues: [], names: [], capabilities: [], slots: {}, totals: {} },
    ...{ weights: {}, slotsMax: 64, running: 0, jobs: [], abandoned: 0, startedAt: 0 },
    ...own,
  };
  return {
    ...{ host: "host", processId: 1, memoryBytes: 0, loopDelayMs: 0, duties: {}, isCandidate: true },
    ...{ writtenAt: 0, ttlMs: 45_000 },
    ...given,
    workers: { [worker]: aWorker },
  };
}
