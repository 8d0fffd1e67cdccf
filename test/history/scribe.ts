/**
 * Writes small true histories for the checker's own tests: each method does to feed, calls, effects and jobs what the
 * engine and a store would do. A test then bends one thing.
 */
import { appendChange, resume } from "../../src/engine/durable/append-change.ts";
import { durableMarks, roundOf } from "../../src/model/durable/durable-marks.ts";
import { writeEntry } from "../../src/model/durable/entry-text.ts";
import type { EntryText } from "../../src/model/durable/entry-text.ts";
import { ownKey } from "../../src/model/durable/journal-entry.ts";
import type { EntryBody } from "../../src/model/durable/journal-entry.ts";
import { appendAttempt, appendGivenBack } from "../../src/model/job/attempt-log.ts";
import type { ChangeNext, Suspend } from "../../src/model/job/change.ts";
import type { EventKind } from "../../src/model/events/event-kind.ts";
import type { JobState, TerminalState } from "../../src/model/job/job-state.ts";
import { isTerminal, terminalStates } from "../../src/model/job/job-state.ts";
import { deleteChange, revokeChange } from "../../src/model/job/operate.ts";
import { routeOf } from "../../src/model/routing/route.ts";
import type { AddAnswer, SettleAnswer } from "../../src/store/operations.ts";
import type {
  Add,
  Doc,
  Entry,
  FeedEvent,
  FeedRecord,
  FrameChunk,
  FramesPut,
  Gate,
  GatePut,
  JobRecord,
  LeasedJob,
  NewJob,
} from "../../src/store/records.ts";
import { isBornBlocked } from "../../src/store/rules/flow/member.ts";
import { aGate, aJob, anAdd, finish, schedule } from "../support/builders.ts";
import { recount } from "../support/walk.ts";
import { countKind } from "./history.ts";
import type {
  Effect,
  Evidence,
  GateAct,
  Operation,
  Purge,
  StepRun,
  StoreCall,
  TokenAnswer,
} from "./history.ts";

type Mutable<Type> = { -readonly [Key in keyof Type]: Type[Key] };
type Tale = Mutable<JobRecord> & Pick<NewJob, "requires" | "gates">;

const leaseMs = 1000;

export class Scribe {
  readonly operations: Operation[] = [];
  readonly effects: Effect[] = [];
  readonly feed: Mutable<FeedRecord>[] = [];
  readonly jobs = new Map<string, Tale>();
  readonly kv: Doc[] = [];
  readonly counters: Doc[] = [];
  readonly schedules: Doc[] = [];
  now = 1000;
  isFaultFree = false;
  readonly gates = new Map<string, Gate>();
  readonly journals = new Map<string, Entry[]>();
  readonly outputs = new Map<string, FrameChunk[]>();
  readonly steps: StepRun[] = [];
  leftovers: Record<string, number> = {};
  #order = 0;
  #seq = 0;

  job(id: string): Tale {
    return this.jobs.get(id) as Tale;
  }

  call<Kind extends StoreCall["kind"]>(
    kind: Kind,
    request: unknown,
    answer: unknown,
    given: Partial<Pick<StoreCall, "seen" | "actor">> = {},
  ): StoreCall {
    const at = this.now * 1000;
    const order = answer === null ? null : ++this.#order;
    const call = {
      kind,
      actor: "p1",
      invokedUs: at,
      answeredUs: at + 1,
      seen: "ok",
      order,
      request,
      answer,
      ...given,
    };
    this.operations.push(call as StoreCall);
    return call as StoreCall;
  }

  emit(...events: readonly Omit<FeedEvent, "route">[]): void {
    this.feed.push({
      number: this.feed.length + 1,
      at: this.now,
      events: events.map((event) => ({ ...event, route: this.#routeOf(event.id) })),
    });
  }

  #routeOf(id: string): number {
    return routeOf(this.jobs.get(id) ?? aJob({ id })).number;
  }

  submit(...specs: readonly (Partial<NewJob> & { readonly id: string })[]): void {
    const jobs = specs.map((spec) => aJob(spec));
    this.call(
      "submit",
      [{ jobs }],
      [{ kind: "ok", ids: jobs.map(({ id }) => id), hows: jobs.map(() => "created") }],
    );
    this.emit(...jobs.map((job) => this.#born(job)));
  }

  #born(job: NewJob): Omit<FeedEvent, "route"> {
    const dueAt = this.now + ("inMs" in job.due ? job.due.inMs : 0);
    const state = isBornBlocked(job) ? "blocked" : dueAt > this.now ? "scheduled" : "ready";
    this.jobs.set(job.id, {
      ...job,
      seq: ++this.#seq,
      state,
      rev: 1,
      fence: 0,
      attempt: 0,
      countsAttempt: 1,
      attempts: null,
      laneKey: job.laneKey ?? null,
      laneStep: job.laneStep ?? null,
      laneGates: job.laneGates ?? null,
      keepsLane: 0,
      durable: 0,
      flow: job.flow ?? null,
      edges: job.edges ?? null,
      waits: job.waits ?? null,
      progress: null,
      rank: job.rankBase + dueAt,
      createdAt: this.now,
      dueAt,
      deadlineAt: null,
      ttlAt: null,
      uniqueKey: job.unique?.key ?? null,
      cancelAsked: false,
      owner: null,
      claimedAt: null,
      startedAt: null,
      leaseEndsAt: null,
      attemptEndsAt: null,
      endedAt: null,
      reason: null,
      result: null,
      keepUntil: null,
    });
    return {
      kind: "submitted",
      id: job.id,
      rev: 1,
      state,
      attempt: 0,
      extra: state === "scheduled" ? dueAt : null,
    };
  }

  /** An operator's change that the store applied, and its event. */
  #operate(id: string, next: ChangeNext, state: JobState | null): void {
    const { state: from, rev } = this.job(id);
    this.call(
      "changeIf",
      [{ id, cases: [{ guard: { states: [from] }, next }] }],
      [{ kind: "ok", applied: 0, from, state, rev: rev + 1 }],
    );
    this.change(id, next.event, state);
  }

  remove(id: string): void {
    this.#operate(id, deleteChange.next, null);
  }

  /** Keeps no error: nothing failed. */
  revoke(id: string): void {
    const { attempts } = this.job(id);
    this.#operate(id, revokeChange.next, "ready");
    this.job(id).attempts = attempts;
  }

  /** All finished jobs but the spared one, as application code sees it: the removals, and the number it is told. */
  purge(spared: string | null = null): void {
    const purge: Purge = {
      kind: "purge",
      actor: "p1",
      invokedUs: this.now * 1000,
      answeredUs: null,
      seen: "ok",
      order: null,
      queue: "mail",
      states: terminalStates,
      deleted: 0,
    };
    this.operations.push(purge);
    for (const { id, state } of [...this.jobs.values()]) {
      if (!isTerminal(state) || id === spared) continue;
      this.remove(id);
      purge.deleted += 1;
    }
    this.now += 10;
    purge.answeredUs = this.now * 1000;
  }

  /** Any change by its event alone: promote, reclaim, cancel, replay. */
  change(id: string, kind: EventKind, state: JobState | null, extra: string | number | null = null): void {
    const job = this.job(id);
    job.rev += 1;
    if (kind === "reclaimed")
      job.attempts = appendAttempt(job.attempts, {
        attempt: job.attempt,
        outcome: "lease-expired",
        at: this.now,
      });
    if (kind === "snoozed" || kind === "throttled")
      job.attempts = appendGivenBack(job.attempts, { attempt: job.attempt, outcome: kind, at: this.now });
    if (state === null) {
      this.jobs.delete(id);
      this.outputs.delete(id);
    } else {
      job.state = state;
      if (isTerminal(state)) job.endedAt = this.now;
    }
    this.emit({ kind, id, rev: job.rev, state, attempt: job.attempt, extra });
  }

  claim(
    ids: string | readonly string[],
    given: { readonly owner?: string; readonly counts?: 0 | 1 } = {},
  ): StoreCall {
    const owner = given.owner ?? "w1";
    const leased: LeasedJob[] = [];
    const events: Omit<FeedEvent, "route">[] = [];
    for (const id of [ids].flat()) {
      const job = this.job(id);
      job.state = "running";
      job.rev += 1;
      job.fence += 1;
      job.attempt += given.counts ?? 1;
      job.claimedAt = this.now;
      const { seq, fence, rev, attempt, input, policy, meta, attempts, createdAt, dueAt } = job;
      leased.push({
        id,
        seq,
        fence,
        rev,
        attempt,
        input,
        policy,
        meta,
        attempts,
        createdAt,
        dueAt,
        claimedAt: this.now,
        deadlineAt: null,
        durable: job.durable,
        route: this.#routeOf(id),
      });
      events.push({ kind: "claimed", id, rev, state: "running", attempt, extra: null });
      this.effects.push({ kind: "began", id, fence, attempt, actor: "p1", atUs: this.now * 1000 });
    }
    this.emit(...events);
    const routes = [...new Set([...this.jobs.keys()].map((id) => this.#routeOf(id)))];
    const request = { owner, leaseMs, offers: [{ routes, max: 10 }] };
    return this.call("claim", request, {
      jobs: leased,
      more: false,
      nextDueInMs: null,
      now: this.now,
    });
  }

  #ended({ id, fence, attempt }: Tale, how: Effect["how"] & string): void {
    const by = { actor: "p1", atUs: this.now * 1000, wasAborted: false };
    this.effects.push({ kind: "ended", id, fence, attempt, how, ...by });
  }

  /** A settle by the handler's end: an ok one changes the job, any other answer leaves it. */
  settle(
    id: string,
    to: TerminalState | "retry",
    given: {
      readonly answer?: SettleAnswer["kind"];
      readonly reason?: string;
      readonly effects?: NewJob;
      /** Of a retry. */
      readonly inMs?: number;
    } = {},
  ): StoreCall {
    const job = this.job(id);
    const { answer = "ok", reason = null, effects, inMs = 0 } = given;
    const { seq, fence } = job;
    const isRetry = to === "retry";
    const how =
      to === "failed" && reason === "unrecoverable"
        ? "unrecoverable"
        : to === "completed"
          ? "returned"
          : "threw";
    this.#ended(job, how);
    const next = isRetry ? schedule(inMs) : finish(to, { reason });
    const settle = {
      id,
      seq,
      fence,
      next,
      attempts: null,
      ...(effects === undefined ? {} : { effects: { jobs: [effects] } }),
    };
    const call = this.call("settleIfLeased", [settle], [{ kind: answer }]);
    if (answer !== "ok") return call;
    if (to !== "completed")
      job.attempts = appendAttempt(job.attempts, { attempt: job.attempt, outcome: "failed", at: this.now });
    job.rev += 1;
    job.state = !isRetry ? to : inMs > 0 ? "scheduled" : "ready";
    job.reason = reason;
    if (!isRetry) job.endedAt = this.now;
    const events: Omit<FeedEvent, "route">[] = [
      {
        kind: isRetry ? "retry-scheduled" : to,
        id,
        rev: job.rev,
        state: job.state,
        attempt: job.attempt,
        extra: job.state === "scheduled" ? this.now + inMs : reason,
      },
    ];
    if (effects !== undefined) events.push(this.#born(effects));
    this.emit(...events);
    return call;
  }

  /** Entries of the run's worker. */
  record(id: string, ...bodies: readonly EntryBody[]): StoreCall {
    const { seq, fence } = this.job(id);
    const entries = bodies.map((body) => writeEntry({ key: ownKey(body), body }));
    this.#append(id, entries);
    const answer = { kind: "appended", last: this.journal(id).length, at: this.now };
    return this.call("recordIfLeased", [{ id, seq, fence, entries }], [answer]);
  }

  /** Output, under the lease that the job has now. */
  write(id: string, numbers: readonly number[], given: Partial<FramesPut> = {}): StoreCall {
    const { seq, fence } = this.job(id);
    const origin = given.restarts === true ? fence : (this.outputs.get(id)?.[0]?.fence ?? fence);
    const chunks = numbers.map((number) => ({ number, body: `${origin};d1:1` }));
    const before = given.restarts === true ? [] : (this.outputs.get(id) ?? []);
    this.outputs.set(id, [...before, ...chunks.map((chunk) => ({ fence, at: this.now, ...chunk }))]);
    return this.call("recordIfLeased", [{ id, seq, fence, frames: { chunks, ...given } }], ["ok"]);
  }

  journal(id: string): Entry[] {
    const entries = this.journals.get(id) ?? [];
    this.journals.set(id, entries);
    return entries;
  }

  #append(id: string, entries: readonly EntryText[]): void {
    const journal = this.journal(id);
    for (const { key, body, marks = 0 } of entries) {
      journal.push({ number: journal.length + 1, at: this.now, key, body });
      this.job(id).durable |= marks | durableMarks.hasJournal;
    }
  }

  /** A run waits, until then or for ever, with what it has seen of its journal. */
  suspend(id: string, wakeInMs: number | null = null, seen = this.journal(id).length): StoreCall {
    const job = this.job(id);
    const { seq, fence } = job;
    this.#ended(job, "snoozed");
    const next: Suspend = {
      ...{ to: "suspended", event: "suspended", countsAttempt: 1, attempt: 0 },
      wake: wakeInMs === null ? null : { inMs: wakeInMs },
    };
    const settle = { id, seq, fence, next, attempts: null, journal: { seen, entries: [] } };
    const call = this.call("settleIfLeased", [settle], [{ kind: "ok" }]);
    job.ttlAt = wakeInMs === null ? null : this.now + wakeInMs;
    job.attempt = 0;
    this.change(id, "suspended", "suspended");
    return call;
  }

  /** Of somebody else: it resumes a run that is suspended. */
  send(id: string, key: string, body: EntryBody, given: { readonly resumes?: boolean } = {}): StoreCall {
    const { state: from } = this.job(id);
    const resumes = from === "suspended" && given.resumes !== false;
    const change = appendChange(id, { entry: writeEntry({ key, body }) });
    this.#append(id, [writeEntry({ key, body })]);
    const { rev, attempt } = this.job(id);
    const state = resumes ? "ready" : from;
    const applied = from === "suspended" ? 0 : 1;
    const answer = { kind: "ok", applied, from, state, rev: resumes ? rev + 1 : rev };
    const call = this.call("changeIf", [change], [answer]);
    if (resumes) this.change(id, "resumed", "ready");
    else this.emit({ kind: "signalled", id, rev, state: from, attempt, extra: null });
    return call;
  }

  /** By the duty, because its time has come. */
  wake(id: string): void {
    const { rev } = this.job(id);
    const cases = [{ guard: { states: ["suspended"], rang: "wake" }, next: resume }];
    const answer = { kind: "ok", applied: 0, from: "suspended", state: "ready", rev: rev + 1 };
    this.call("changeIf", [{ id, cases }], [answer]);
    this.change(id, "resumed", "ready");
  }

  /** A step's function begins. */
  step(id: string, call: string, fence = this.job(id).fence): void {
    this.steps.push({ id, fence, round: roundOf(this.job(id).durable), call, atUs: this.now * 1000 });
  }

  /** What somebody is told who answers by a token. */
  answerByToken(run: string, key: string, given: Partial<TokenAnswer> = {}): void {
    const invokedUs = this.now * 1000;
    this.now += 1;
    const expiry = { expiresAt: this.now + 1000, keyEndsAt: null };
    this.operations.push({
      ...{ kind: "token-answer", actor: "p1", seen: "ok", order: null, run, round: 0, key },
      ...{ invokedUs, answeredUs: this.now * 1000, said: "accepted" },
      ...expiry,
      ...given,
    });
  }

  /** Adds to a counter. told: what the caller learns, the truth unless it is given; null for nothing. */
  count(
    id: string,
    by: number,
    add: Partial<Add> = {},
    given: { readonly told?: AddAnswer | null } = {},
  ): void {
    const at = this.counters.findIndex((doc) => doc.id === id);
    const { body = "0", version = 0 } = this.counters[at] ?? {};
    const before = Number(body);
    const isAbove = by > 0 && before + by > (add.ceiling ?? Infinity);
    const truth: AddAnswer = isAbove
      ? { kind: "above", number: before }
      : { kind: "ok", version: version + 1, number: before + by };
    const { told = truth } = given;
    const put = anAdd(id, by, add, { kind: countKind });
    this.call("putDocs", [put], told === null ? null : [told], { seen: told === null ? "unknown" : "ok" });
    if (truth.kind !== "ok") return;
    const doc = { kind: countKind, id, version: truth.version, body: String(truth.number) };
    this.counters.splice(at < 0 ? this.counters.length : at, 1, { ...doc, dueAt: null, expiresAt: null });
  }

  extend(id: string, answer: "ok" | "stale" = "ok"): void {
    const { seq, fence } = this.job(id);
    const request = { owner: "w1", leaseMs, leases: [{ id, seq, fence }], wantsOthers: false };
    this.call("extendIfLeased", request, { answers: [answer], others: [], now: this.now });
  }

  /** What the gate is from now on: what is not given is not bounded. */
  put(key: string, bounds: Partial<GatePut>): void {
    const put = aGate(key, bounds);
    const version = (this.gates.get(key)?.version ?? 0) + 1;
    const { perKey = null } = put;
    this.gates.set(key, { ...put, perKey, version, tatUs: 0, closedUntil: null, held: 0 });
    this.call("putGates", [put], [{ kind: "ok", version }]);
  }

  /** What an operator is told of a close or of its end, 1 ms later. */
  act(kind: GateAct["kind"], key: string, until: number | null = null): void {
    const invokedUs = this.now * 1000;
    this.now += 1;
    const answeredUs = this.now * 1000;
    this.operations.push({ kind, actor: "p1", invokedUs, answeredUs, seen: "ok", order: null, key, until });
    this.now += 1;
  }

  /** From the submit to the completion. */
  live(id: string, spec: Partial<NewJob> = {}): void {
    this.submit({ id, ...spec });
    this.now += 10;
    this.claim(id);
    this.now += 10;
    this.settle(id, "completed");
  }

  evidence(): Evidence {
    const jobs = [...this.jobs.values()];
    return {
      operations: this.operations,
      effects: this.effects,
      steps: this.steps,
      snapshot: {
        jobs,
        stateCounts: recount(jobs),
        feed: this.feed,
        feedByPages: structuredClone(this.feed),
        kv: this.kv,
        counters: this.counters,
        schedules: this.schedules,
        gates: [...this.gates.values()],
        outputs: [...this.outputs].map(([id, chunks]) => ({ id, chunks })),
        journals: [...this.journals].map(([id, entries]) => ({ id, entries })),
        now: this.now,
      },
      isFaultFree: this.isFaultFree,
      healedAt: null,
      leftovers: this.leftovers,
    };
  }
}
