/**
 * The ten rules of the store contract (src/store/store.ts) over plain maps, as far as they act yet: what a store does
 * by itself and nothing more. Live and finished jobs share one map, a refused unit is undone by putting a copy of
 * everything back, every order is a sort. Half of the reference model; reference-store.ts has the operations.
 */
import type {
  Block,
  ChangeNext,
  Due,
  Edit,
  Finish,
  HandBack,
  SettleNext,
  Suspend,
  Update,
  Schedule,
} from "../../src/model/job/change.ts";
import { storeLimits } from "../../src/store/contract-limits.ts";
import type { EventKind } from "../../src/model/events/event-kind.ts";
import { canMove, isTerminal } from "../../src/model/job/job-state.ts";
import type { JobState, Origin } from "../../src/model/job/job-state.ts";
import type { UniqueHold } from "../../src/model/job/unique-key.ts";
import type * as operations from "../../src/store/operations.ts";
import { routeNumber } from "../../src/model/routing/route.ts";
import type { Route } from "../../src/model/routing/route.ts";
import { gateOfLimit, isKeyedGate, laneOrderOf, readKeyUse } from "../../src/model/routing/lane.ts";
import type {
  Doc,
  DocAdd,
  DocCheck,
  FrameChunk,
  FramePlace,
  FramesPut,
  DocPut,
  Entry,
  EntryPut,
  FeedEvent,
  FeedRecord,
  Gate,
  GatePut,
  PutEvent,
  Growth,
  JobRecord,
  LeasedJob,
  NewJob,
  Slip,
} from "../../src/store/records.ts";
import { ReferenceFlows } from "./reference-flows.ts";

export type Job = { -readonly [Key in keyof JobRecord]: JobRecord[Key] } & {
  route: number;
  digest: string | null;
  settledFence: number | null;
  changeToken: string | null;
  hold: UniqueHold | null;
  resultUntil: number | null;
  freed: string | null;
};

export type KeptGate = Omit<Gate, "held" | "tatUs"> & { tatUs: number };
export interface Passage {
  readonly gate: KeptGate;
  readonly weight: number;
  readonly ownCap?: number | null;
}

/** The journal of a durable run. */
interface Journal {
  entries: (Entry & { unread: number; isForeign: boolean })[];
  slips: Slip[];
  /** Keys of earlier rounds that are still refused, oldest first. */
  oldKeys: string[];
}

interface Contents {
  jobs: Map<string, Job>;
  keys: Map<string, { id: string; seq: number; hold: UniqueHold; until: number }>;
  docs: Map<string, Doc>;
  gates: Map<string, KeptGate>;
  /** Token times of the gates of keys. */
  tokens: Map<string, number>;
  /** Turns of lanes, and the highest turn claimed in each queue. */
  turns: Map<string, { queue: string; turn: number }>;
  tops: Map<string, number>;
  /** The highest version of any document that was deleted or pruned. */
  docFloor: number;
  logs: Map<string, { number: number; at: number; body: string }[]>;
  outputs: Map<string, { summary: string | null; chunks: FrameChunk[] }>;
  journals: Map<string, Journal>;
  routes: Route[];
  seq: number;
  events: FeedEvent[];
}

const byPlace = (a: FramePlace, b: FramePlace): number => a.fence - b.fence || a.number - b.number;
const docKey = ({ kind, id }: { kind: string; id: string }): string => JSON.stringify([kind, id]);

/** What a fresh job has none of. */
const blank =
  "attempts progress owner claimedAt startedAt leaseEndsAt attemptEndsAt endedAt reason result keepUntil resultUntil settledFence changeToken hold";

export class ReferenceRules {
  now = 0;
  all: Contents = {
    jobs: new Map(),
    keys: new Map(),
    docs: new Map(),
    gates: new Map(),
    tokens: new Map(),
    turns: new Map(),
    tops: new Map(),
    docFloor: 0,
    logs: new Map(),
    outputs: new Map(),
    journals: new Map(),
    routes: [],
    seq: 0,
    events: [],
  };
  feed: FeedRecord[] = [];
  feedNumber = 0;
  /** Of the settle that is applied now. */
  note = "";
  readonly flows = new ReferenceFlows(this);
  readonly #clock: () => number;
  readonly #epoch: number;

  constructor(clock: () => number, epoch: number) {
    this.#clock = clock;
    this.#epoch = epoch;
  }

  /** R1: time never goes back. R10: what the call changed becomes one record. */
  call<Answer>(run: () => Answer): Answer {
    this.now = Math.max(this.now, this.#clock());
    const answer = run();
    for (const { queue, laneKey, laneStep } of this.jobs(({ state }) => state === "ready"))
      if (laneKey !== null && laneStep !== null && !this.all.turns.has(laneKey))
        this.all.turns.set(laneKey, { queue, turn: this.topOf(queue) });
    if (this.all.events.length > 0)
      this.feed.push({ number: ++this.feedNumber, at: this.now, events: this.all.events });
    this.all.events = [];
    return structuredClone(answer);
  }

  /** All of a unit or nothing. */
  unit<Answer extends { kind: string }>(run: () => Answer): Answer {
    const before = structuredClone(this.all);
    const answer = run();
    if (answer.kind !== "ok") {
      this.all = before;
      this.flows.takeBack();
    }
    return answer;
  }

  /** R10. */
  emit(job: Job, kind: EventKind, state: JobState | null = job.state): void {
    job.rev += 1;
    const extra =
      kind === "claimed"
        ? job.startedAt === null
          ? null
          : 1
        : isTerminal(job.state)
          ? job.reason
          : job.state === "scheduled"
            ? job.dueAt
            : job.state === "running" && job.cancelAsked
              ? job.owner
              : null;
    const { id, rev, route, attempt } = job;
    const emitted = { kind, id, rev, route, state, attempt, extra: state === null ? null : extra };
    this.all.events.push(this.note === "" ? emitted : { ...emitted, note: this.note });
    this.note = "";
  }

  /** What changes no state. */
  emitNews(
    { id, rev, route, state, attempt, startedAt, progress }: Job,
    kind: "started" | "progress" | "step",
  ): void {
    const extra = kind === "started" ? startedAt : progress;
    this.all.events.push({ kind, id, rev, route, state, attempt, extra });
  }

  /** The output of a job, R2 over its chunks. */
  writeFrames(job: Job, { chunks, summary, restarts, dropsTo }: FramesPut): void {
    const { id, fence, rev, route, state, attempt, owner } = job;
    const known = this.all.outputs.get(id) ?? { summary: null, chunks: [] };
    const before = restarts === true ? known.chunks.filter((chunk) => chunk.fence >= fence) : known.chunks;
    const fresh = chunks.filter(
      ({ number }) => !before.some((chunk) => chunk.fence === fence && chunk.number === number),
    );
    const all = [...before, ...fresh.map((chunk) => ({ fence, at: this.now, ...chunk }))];
    this.all.outputs.set(id, {
      summary: summary ?? (restarts === true ? null : known.summary),
      chunks: all.filter((chunk) => dropsTo === undefined || byPlace(chunk, dropsTo) > 0).sort(byPlace),
    });
    const extra = job.cancelAsked ? owner : null;
    this.all.events.push({ kind: "output", id, rev, route, state, attempt, extra });
  }

  /** What a listener of the journal's owner hears. */
  emitSignal({ id, rev, route, state, attempt, owner, dueAt, reason }: Job): void {
    const extra =
      state === "running" ? owner : state === "scheduled" ? dueAt : isTerminal(state) ? reason : null;
    this.all.events.push({ kind: "signalled", id, rev, route, state, attempt, extra });
  }

  journalOf({ id }: Pick<Job, "id">): Journal {
    const journal = this.all.journals.get(id) ?? { entries: [], slips: [], oldKeys: [] };
    this.all.journals.set(id, journal);
    return journal;
  }

  /** R2. @returns how many of them were new */
  append(job: Job, puts: readonly EntryPut[], isForeign = false): number {
    const { entries } = this.journalOf(job);
    const before = entries.length;
    for (const { key, body, marks = 0, unread = 0, reads = [] } of puts) {
      job.durable |= 1;
      if (entries.some((entry) => entry.key === key)) continue;
      entries.push({ number: entries.length + 1, at: this.now, key, body, unread, isForeign });
      for (const entry of entries) if (reads.includes(entry.number)) entry.unread = 0;
      job.durable |= marks;
      if ((marks & 4) !== 0) Object.assign(job, { deadlineAt: null, cancelAsked: false });
    }
    return entries.length - before;
  }

  /** R2: why the entry of another is not appended; null if it is. */
  appendRefusal(job: Job, { entry, unreadMax }: operations.Append): "full" | null {
    if (unreadMax === undefined) return null;
    const unread = this.journalOf(job).entries.filter((each) => each.unread > 0);
    const count = unread.length + (entry.unread === undefined ? 0 : 1);
    const size = unread.reduce((sum, each) => sum + each.unread, entry.unread ?? 0);
    return count > unreadMax.count || size > unreadMax.size ? "full" : null;
  }

  isKnownKey(job: Job, key: string): boolean {
    const { entries, oldKeys } = this.journalOf(job);
    return oldKeys.includes(key) || entries.some((entry) => entry.key === key);
  }

  /** R2. */
  beginRound(job: Job): void {
    const { entries, oldKeys } = this.journalOf(job);
    const foreign = entries.filter(({ isForeign }) => isForeign).map(({ key }) => key);
    this.all.journals.set(job.id, {
      entries: entries
        .filter(({ unread }) => unread > 0)
        .map((entry, index) => ({ ...entry, number: index + 1 })),
      slips: [],
      oldKeys: [...new Set([...oldKeys, ...foreign])].slice(-storeLimits.journalKeysKeptMax),
    });
    job.durable = (Math.floor(job.durable / 16) + 1) * 16 + (job.durable & 1);
  }

  move(job: Job, to: JobState, event: EventKind): void {
    checkArrow(job.state, to);
    job.state = to;
    if (to !== "running") job.leaseEndsAt = job.attemptEndsAt = null;
    if (to !== "scheduled" && !isTerminal(to)) job.keepsLane = 0;
    this.emit(job, event);
  }

  /** isIntake: work from outside, which a queue with a closed intake refuses. */
  put(
    jobs: readonly NewJob[] = [],
    docs: readonly DocPut[] = [],
    {
      isRepeat = false,
      isIntake = false,
      checks = [],
      ...growth
    }: { isRepeat?: boolean; isIntake?: boolean; checks?: readonly DocCheck[] } & Growth = {},
  ): operations.SubmitAnswer {
    for (const { kind, id, version } of isRepeat ? [] : checks)
      if (this.versionOf({ kind, id }) !== version) return { kind: "refused", reason: "doc-changed", id };
    const ids: string[] = [];
    const hows: operations.SubmitHow[] = [];
    for (const spec of jobs) {
      const known = isRepeat || spec.digest !== null ? this.all.jobs.get(spec.id) : undefined;
      if (known !== undefined && known.digest !== spec.digest)
        return { kind: "refused", reason: "id-differs", id: spec.id };
      if (known === undefined && isIntake && this.all.gates.get(`q:${spec.queue}`)?.isIntakeClosed === true)
        return { kind: "refused", reason: "intake-closed", id: spec.id };
      if (known === undefined && (spec.waits ?? null) !== null && this.isKeyHeld(spec))
        return { kind: "refused", reason: "key-held", id: spec.id };
      const [id, how] = known === undefined ? this.submitJob(spec) : [spec.id, "existing" as const];
      ids.push(id);
      hows.push(how);
    }
    for (const { kind, id, version } of isRepeat ? checks : [])
      if (this.versionOf({ kind, id }) !== version) return { kind: "refused", reason: "doc-changed", id };
    const closed = this.flows.grow(growth);
    if (closed !== null) return { kind: "refused", reason: "flow-closed", id: closed };
    const reasons = { changed: "doc-changed", above: "above-ceiling", uncountable: "uncountable" } as const;
    for (const put of docs) {
      const { kind } = this.putDoc(put);
      if (kind !== "ok") return { kind: "refused", reason: reasons[kind], id: put.id };
    }
    return { kind: "ok", ids, hows };
  }

  /** R8. */
  submitJob(spec: NewJob): readonly [string, operations.SubmitHow] {
    const { unique } = spec;
    const entry = unique === null ? undefined : this.all.keys.get(unique.key);
    if (unique === null || entry === undefined || entry.until <= this.now)
      return [this.create(spec), "created"];
    // A given id may have come back as another job since: the seq tells.
    const [holder] = this.jobs(({ seq }) => seq === entry.seq);
    const isUnstarted = holder?.attempt === 0 && ["scheduled", "ready"].includes(holder.state);
    if (!isUnstarted || holder.waits !== null || unique.onHeld === "keep") return [entry.id, "existing"];
    this.place(holder, spec.due, spec);
    this.write(holder, spec);
    holder.route = this.routeOf(spec);
    holder.keepsLane = 0;
    this.hold(holder, unique.hold);
    this.move(holder, holder.dueAt <= this.now ? "ready" : "scheduled", "replaced");
    return [holder.id, "replaced"];
  }

  isKeyHeld({ unique }: NewJob): boolean {
    const entry = unique === null ? undefined : this.all.keys.get(unique.key);
    return entry !== undefined && entry.until > this.now;
  }

  create(spec: NewJob): string {
    const job = Object.fromEntries(blank.split(" ").map((field) => [field, null])) as unknown as Job;
    Object.assign(job, {
      id: spec.id,
      digest: spec.digest,
      seq: ++this.all.seq,
      rev: 0,
      fence: 0,
      attempt: 0,
    });
    Object.assign(job, { countsAttempt: 1, cancelAsked: false, createdAt: this.now, keepsLane: 0 });
    job.durable = 0;
    job.uniqueKey = spec.unique?.key ?? null;
    job.route = this.routeOf(spec);
    this.write(job, spec);
    this.place(job, spec.due, spec);
    job.state = job.dueAt <= this.now ? "ready" : "scheduled";
    this.flows.bear(job, spec);
    checkArrow("submit", job.state);
    this.all.jobs.set(job.id, job);
    if (spec.unique !== null) this.hold(job, spec.unique.hold);
    this.emit(job, "submitted");
    return job.id;
  }

  write(
    job: Job,
    { queue, name, requires = [], input, policy, meta, tags, deadline, ...spec }: NewJob,
  ): void {
    delete job.requires;
    const { laneKey = null, laneStep = null, laneGates = null } = spec;
    Object.assign(job, {
      laneKey,
      laneStep,
      laneGates,
      queue,
      name,
      ...(requires.length === 0 ? {} : { requires }),
      input,
      policy,
      meta,
      tags,
      deadlineAt: deadline === null ? null : this.at(deadline),
    });
  }

  /** R1. */
  at(due: Due): number {
    return "at" in due ? due.at : this.now + due.inMs;
  }

  place(job: Job, due: Due, by: { rankBase: number; rankSlope: number; ttlMs: number | null }): void {
    job.dueAt = this.at(due);
    job.rank = by.rankBase + by.rankSlope * job.dueAt;
    job.ttlAt = addMs(job.dueAt, by.ttlMs);
  }

  routeOf({ queue, name, requires = [], gates = [], ...lane }: NewJob): number {
    const lanes = laneOrderOf(lane);
    const number = routeNumber(queue, name, requires, gates, lanes);
    if (!this.all.routes.some((route) => route.number === number))
      this.all.routes.push({ number, queue, name, requires, gates, ...(lanes === null ? {} : { lanes }) });
    return number;
  }

  topOf(queue: string): number {
    return this.all.tops.get(queue) ?? 0;
  }

  /** R6: the first ready jobs of all lanes, whatever their routes. */
  headsOfLanes(): Job[] {
    const ready = this.jobs(({ state, laneKey }) => state === "ready" && laneKey !== null);
    const lanes = Map.groupBy(ready, ({ laneKey }) => laneKey);
    return [...lanes.values()].map((jobs) => jobs.sort((a, b) => a.rank - b.rank || a.seq - b.seq)[0] as Job);
  }

  /** R6: where a job with a lane stands among the heads of other lanes. */
  positionOf({ laneKey, laneStep, rank }: Job): number {
    return laneStep === null ? rank : (this.all.turns.get(laneKey as string)?.turn as number);
  }

  /** R6: the lane of a job that is being claimed has had its turn. */
  takeTurn({ queue, laneKey, laneStep }: Job): void {
    if (laneStep === null) return;
    const turn = Math.max(this.all.turns.get(laneKey as string)?.turn as number, this.topOf(queue));
    this.all.tops.set(queue, turn);
    this.all.turns.set(laneKey as string, { queue, turn: turn + laneStep });
  }

  /** R6: at the end of a claim, in the queues in which a lane had its turn. */
  forgetTurns(queues: ReadonlySet<string>): void {
    const lanes = new Set(this.headsOfLanes().map(({ laneKey }) => laneKey));
    for (const [lane, { queue, turn }] of this.all.turns)
      if (queues.has(queue) && !lanes.has(lane) && turn <= this.topOf(queue)) this.all.turns.delete(lane);
  }

  /** R7: the gates of the keys of a job, bounded for this job. */
  keyGatesOf(job: Job): readonly Passage[] {
    return (job.laneGates ?? []).map(readKeyUse).map(({ key, weight, cap }) => {
      const gate = this.keyGate(key);
      return { gate: { ...gate, cap: cap ?? gate.cap }, weight, ownCap: cap };
    });
  }

  /** A gate of a key as it stands, whether it was put or not. */
  keyGate(key: string): KeptGate {
    const own = this.all.gates.get(key);
    const perKey = this.all.gates.get(gateOfLimit(key))?.perKey ?? null;
    const { version = 0, closedUntil = null, isIntakeClosed = false, body = null } = own ?? {};
    const tatUs = this.all.tokens.get(key) ?? 0;
    return {
      ...{ key, version, closedUntil, isIntakeClosed, body, perKey: null },
      cap: own?.cap ?? perKey?.cap ?? null,
      rate: own?.rate ?? perKey?.rate ?? null,
      tatUs: tatUs > this.now * 1000 ? tatUs : 0,
    };
  }

  /** R7: the gates that a job of this route has to pass, by key, with its weight. */
  gatesOf(route: number): readonly Passage[] {
    const { queue, gates } = this.all.routes.find(({ number }) => number === route) as Route;
    return [{ key: `q:${queue}`, weight: 1 }, ...gates].flatMap(({ key, weight }) => {
      const gate = this.all.gates.get(key);
      return gate === undefined ? [] : [{ gate, weight }];
    });
  }

  /** Never counted: what runs on the gate's routes holds it. */
  heldOf(key: string): number {
    let held = 0;
    if (isKeyedGate(key)) {
      for (const { state, keepsLane, laneGates } of this.all.jobs.values())
        for (const use of (laneGates ?? []).map(readKeyUse))
          if (use.key === key && (state === "running" || (keepsLane === 1 && use.cap !== null)))
            held += use.weight;
      return held;
    }
    for (const job of this.jobs(({ state }) => state === "running"))
      for (const { gate, weight } of this.gatesOf(job.route)) if (gate.key === key) held += weight;
    return held;
  }

  putGate({
    key,
    guard,
    closed,
    emptiesRate,
    emits,
    perKey = null,
    ...put
  }: GatePut): operations.GatePutAnswer {
    const { version, tatUs } = this.all.gates.get(key) ?? { version: 0, tatUs: 0 };
    if (guard !== "any" && guard.version !== version) return { kind: "changed", version };
    this.emitPut(emits);
    const emptyUs = emptiesRate === true && put.rate !== null ? this.now * 1000 + put.rate.burstUs : 0;
    const closedUntil = closed === null ? null : this.at(closed);
    const gate = { ...put, key, closedUntil, perKey, version: version + 1, tatUs: Math.max(tatUs, emptyUs) };
    this.all.gates.set(key, gate);
    if (isKeyedGate(key) && emptiesRate === true) {
      const { rate } = this.keyGate(key);
      const drainedUs = rate === null ? 0 : this.now * 1000 + rate.burstUs;
      this.all.tokens.set(key, Math.max(this.all.tokens.get(key) ?? 0, drainedUs));
    }
    return { kind: "ok", version: gate.version };
  }

  /**
   * R7: lets the job pass through all its gates, or names the gates that refuse it; isOwn: by the job's own cap alone.
   */
  admit(job: Job): readonly (Passage & { readonly isOwn: boolean })[] {
    const nowUs = this.now * 1000;
    const gates = [...this.gatesOf(job.route), ...this.keyGatesOf(job)];
    const refusing = gates.flatMap((passage) => {
      const { weight, ownCap = null } = passage;
      const { key, cap, rate, tatUs, closedUntil } = passage.gate;
      const isClosed = closedUntil !== null && closedUntil > this.now;
      const isFull = cap !== null && this.heldOf(key) + weight > cap;
      const isSpent = rate !== null && Math.max(tatUs, nowUs) + weight * rate.stepUs > nowUs + rate.burstUs;
      const isOwn = ownCap !== null && !isClosed && !isSpent;
      return isClosed || isFull || isSpent ? [{ ...passage, isOwn }] : [];
    });
    if (refusing.length > 0) return refusing;
    for (const { gate, weight } of gates) {
      if (gate.rate === null) continue;
      gate.tatUs = Math.max(gate.tatUs, nowUs) + weight * gate.rate.stepUs;
      if (isKeyedGate(gate.key)) this.all.tokens.set(gate.key, gate.tatUs);
    }
    return [];
  }

  hold(job: Job, hold: UniqueHold): void {
    job.hold = hold;
    const until = typeof hold === "number" ? this.now + hold : Number.POSITIVE_INFINITY;
    this.all.keys.set(job.uniqueKey as string, { id: job.id, seq: job.seq, hold, until });
  }

  free(job: Job, holds: (hold: UniqueHold) => boolean): void {
    const entry = this.all.keys.get(job.uniqueKey ?? "");
    if (entry?.seq === job.seq && holds(entry.hold)) this.all.keys.delete(job.uniqueKey as string);
  }

  /** Whether a minted id is known: by its job, or, where that kept nothing, by the key that it still holds. */
  hasMade({ id, digest, unique }: NewJob): boolean {
    const entry = unique === null ? undefined : this.all.keys.get(unique.key);
    const holds = entry !== undefined && entry.id === id && entry.until > this.now;
    return digest === null && (this.all.jobs.has(id) || holds);
  }

  /** Who holds the key that a replay has to take again. */
  holderOf(job: Job): string | null {
    const entry = job.hold === "end" ? this.all.keys.get(job.uniqueKey as string) : undefined;
    return entry !== undefined && entry.until > this.now ? entry.id : null;
  }

  /** R6. */
  lease(job: Job, owner: string, leaseMs: number, starts: boolean): LeasedJob {
    job.fence = Math.max(job.fence, this.#epoch * 2 ** 32) + 1;
    job.attempt += job.countsAttempt;
    Object.assign(job, {
      countsAttempt: 1,
      owner,
      claimedAt: this.now,
      startedAt: starts ? this.now : null,
      attemptEndsAt: null,
      ttlAt: null,
    });
    job.leaseEndsAt = this.now + leaseMs;
    this.free(job, (hold) => hold === "started");
    this.move(job, "running", "claimed");
    const keyGates = (job.laneGates ?? []).map((use) => readKeyUse(use).key);
    return keyGates.length === 0 ? asLeased(job) : { ...asLeased(job), keyGates };
  }

  settle({
    id,
    seq,
    fence,
    next,
    journal,
    attempts,
    effects = {},
  }: operations.Settle): operations.SettleAnswer {
    const job = this.all.jobs.get(id);
    if (job === undefined) return { kind: "gone" };
    if (job.seq !== seq) return { kind: "stale" };
    if (job.state !== "running" || job.fence !== fence)
      return { kind: job.settledFence === fence ? "already" : "stale" };
    if (job.cancelAsked && !isTerminal(next.to as JobState)) return { kind: "cancel-asked" };
    if (journal !== undefined && journal.seen !== null) {
      const last = this.journalOf(job).entries.length;
      if (last !== journal.seen) return last > journal.seen ? { kind: "arrived", last } : { kind: "stale" };
    }
    if (journal !== undefined) this.append(job, journal.entries);
    const isShort = attempts !== null && attempts.length <= storeLimits.noteCharsMax;
    this.note = `${job.startedAt === null ? "!" : ""}${isShort ? attempts : ""}`;
    if (attempts !== null) job.attempts = attempts;
    job.settledFence = fence;
    this.change(job, next);
    const answer = this.put(effects.jobs, effects.docs, effects);
    if (answer.kind === "ok") this.flows.passOnAll();
    return answer.kind === "ok"
      ? { kind: "ok" }
      : ({ kind: answer.reason, id: answer.id } as operations.SettleAnswer);
  }

  /** R2. */
  holds(job: Job, { states, rev = job.rev, fence = job.fence, rang, marks }: operations.Guard): boolean {
    return (
      states.includes(job.state) &&
      rev === job.rev &&
      fence === job.fence &&
      (marks === undefined || (job.durable & marks.mask) === marks.is) &&
      (rang === undefined || this.rang(job, rang))
    );
  }

  rang(job: Job, clock: operations.Clock): boolean {
    const isOfState =
      clock === "wake" ? job.state === "suspended" : clock !== "ttl" || job.state !== "suspended";
    const at = isTerminal(job.state) || !isOfState ? null : clockAt(job, clock);
    return at !== null && at <= this.now;
  }

  change(job: Job, next: ChangeNext | SettleNext): void {
    if (next.to === "suspended") this.suspend(job, next);
    else if (next.to === "same") this.update(job, next);
    else if (next.to === "blocked") this.block(job, next);
    else if (next.to === "deleted") this.remove(job);
    else if (next.to === "scheduled") this.schedule(job, next);
    else if (next.to === "ready") this.handBack(job, next);
    else this.finish(job, next);
  }

  /** R3. */
  finish(job: Job, { to, event, reason, result, keepMs, keepResultMs, keepsLane }: Finish): void {
    const resultUntil = addMs(this.now, keepResultMs ?? null);
    job.keepsLane = keepsLane === true && job.laneKey !== null ? 1 : 0;
    Object.assign(job, {
      endedAt: this.now,
      reason,
      result,
      keepUntil: addMs(this.now, keepMs),
      resultUntil,
    });
    this.free(job, (hold) => typeof hold !== "number");
    if ((job.durable & 8) !== 0) this.flows.deferWork(job.id);
    const isKept = this.flows.end(job);
    this.move(job, to, event);
    if (keepMs === 0 && !isKept) this.drop(job);
  }

  /** R4. */
  block(job: Job, next: Block): void {
    if (isTerminal(job.state) && job.deadlineAt !== null && job.deadlineAt <= this.now) job.deadlineAt = null;
    this.flows.comeBack(job);
    this.reopen(job);
    job.attempt = next.attempt ?? job.attempt;
    job.countsAttempt = 1;
    job.keepsLane = 0;
    job.ttlAt = null;
    this.move(job, this.flows.countAnew(job, next), next.event);
  }

  /** What its end wrote is cleared. */
  reopen(job: Job): void {
    if (!isTerminal(job.state)) return;
    const ended = { endedAt: null, reason: null, result: null, keepUntil: null, resultUntil: null };
    Object.assign(job, ended, { cancelAsked: false });
    if (job.hold === "end") this.hold(job, "end");
  }

  schedule(job: Job, next: Schedule): void {
    const isHolding = isTerminal(job.state) && job.keepsLane === 1;
    this.flows.comeBack(job);
    this.reopen(job);
    if (next.clearsPassedDeadline === true && job.deadlineAt !== null && job.deadlineAt <= this.now)
      job.deadlineAt = null;
    const { rank } = job;
    this.place(job, next.due, next);
    const keeps = (next.keepsLane === true || isHolding) && job.laneKey !== null;
    if (keeps) job.rank = rank;
    job.keepsLane = keeps ? 1 : 0;
    edit(job, next.edit);
    job.countsAttempt = next.countsAttempt;
    job.attempt = next.attempt ?? job.attempt;
    if (next.newRound === true) this.beginRound(job);
    this.move(job, job.dueAt <= this.now ? "ready" : "scheduled", next.event);
  }

  suspend(job: Job, { wake, countsAttempt, attempt = job.attempt, keepsLane, event }: Suspend): void {
    job.ttlAt = wake === null ? null : this.at(wake);
    Object.assign(job, { countsAttempt, attempt });
    this.move(job, "suspended", event);
    job.keepsLane = keepsLane === true && job.laneKey !== null ? 1 : 0;
  }

  handBack(job: Job, { countsAttempt, event }: HandBack): void {
    job.ttlAt = null;
    job.countsAttempt = countsAttempt;
    this.move(job, "ready", event);
  }

  update(job: Job, { cancelAsked, rankBase, rankSlope, edit: edited, event, passesOn }: Update): void {
    if (event === "signalled") {
      this.emitSignal(job);
      return;
    }
    job.cancelAsked = cancelAsked ?? job.cancelAsked;
    if (rankBase !== undefined || rankSlope !== undefined)
      job.rank = (rankBase ?? 0) + (rankSlope ?? 1) * job.dueAt;
    edit(job, edited);
    this.emit(job, event);
    if (passesOn !== undefined) this.flows.passOn(job, Math.min(passesOn, storeLimits.edgesPerStepMax));
  }

  remove(job: Job): void {
    this.free(job, () => true);
    if ((job.durable & 8) !== 0) this.flows.deferWork(job.id);
    this.emit(job, "deleted", null);
    this.drop(job);
  }

  drop(job: Job): void {
    const { id } = job;
    this.all.jobs.delete(id);
    this.all.logs.delete(id);
    this.all.outputs.delete(id);
    this.all.journals.delete(id);
    this.flows.leave(job);
  }

  isExpired({ expiresAt }: Doc): boolean {
    return expiresAt !== null && expiresAt <= this.now;
  }

  /** 0 where there is none. */
  versionOf({ kind, id }: Pick<Doc, "kind" | "id">): number {
    const doc = this.all.docs.get(docKey({ kind, id }));
    return doc === undefined || this.isExpired(doc) ? 0 : doc.version;
  }

  emitPut(emits: PutEvent | undefined): void {
    if (emits === undefined) return;
    const { kind, subject, extra } = emits;
    this.all.events.push({ kind, id: subject, rev: 0, route: 0, state: null, attempt: 0, extra });
  }

  putDoc(put: DocPut): operations.PutDocAnswer {
    if (put.add !== undefined) return this.addTo(put);
    const { kind, id, body, guard, due = null, expiresInMs = null, emits } = put;
    const old = this.all.docs.get(docKey({ kind, id }));
    const current = this.versionOf({ kind, id });
    const wanted = guard === "any" ? current : guard === "absent" ? 0 : guard.version;
    if (wanted !== current) return { kind: "changed", version: current };
    this.emitPut(emits);
    this.all.docs.delete(docKey({ kind, id }));
    if (body === null) {
      if (old !== undefined) this.raiseFloor(old);
      return { kind: "ok", version: 0 };
    }
    const version = (old?.version ?? this.all.docFloor) + 1;
    const times = { dueAt: due === null ? null : this.at(due), expiresAt: addMs(this.now, expiresInMs) };
    this.all.docs.set(docKey({ kind, id }), { kind, id, version, body, ...times });
    return { kind: "ok", version };
  }

  /** R9. */
  addTo({ kind, id, add, expiresInMs = null }: DocAdd): operations.PutDocAnswer {
    const { by, ceiling = null, marks = [], leaves } = add;
    const old = this.all.docs.get(docKey({ kind, id }));
    const body = old === undefined || this.isExpired(old) ? "0" : old.body;
    if (!/^(0|-?[1-9]\d{0,15})$/.test(body) || !Number.isSafeInteger(by)) return { kind: "uncountable" };
    // Sums of big integers are exact whatever their size.
    const before = BigInt(body);
    const after = before + BigInt(by);
    const max = BigInt(Number.MAX_SAFE_INTEGER);
    if (before > max || before < -max) return { kind: "uncountable" };
    if (by > 0 && ceiling !== null && after > BigInt(ceiling))
      return { kind: "above", number: Number(before) };
    if (after > max || after < -max) return { kind: "uncountable" };
    const answer = this.putDoc({ kind, id, body: String(after), guard: "any", expiresInMs });
    const isPassed = marks.some((mark) => before < BigInt(mark) && BigInt(mark) <= after);
    if (leaves !== undefined && isPassed)
      this.putDoc({ ...leaves, body: "", guard: "any", due: { inMs: 0 } });
    return { ...answer, number: Number(after) } as operations.PutDocAnswer;
  }

  raiseFloor({ version }: Doc): void {
    this.all.docFloor = Math.max(this.all.docFloor, version);
  }

  jobs(isWanted: (job: Job) => boolean): Job[] {
    return [...this.all.jobs.values()].filter(isWanted).sort((a, b) => a.seq - b.seq);
  }

  nextInMs(): number | null {
    const docs = [...this.all.docs.values()].flatMap(({ dueAt }) => (dueAt === null ? [] : [dueAt]));
    const timers = [...this.jobs((job) => Number.isFinite(timerAt(job))).map(timerAt), ...docs];
    return timers.length === 0 ? null : Math.max(0, Math.min(...timers) - this.now);
  }
}

export const addMs = (at: number, ms: number | null): number | null => (ms === null ? null : at + ms);

function checkArrow(from: Origin, to: JobState): void {
  if (from !== to && !canMove(from, to)) throw new Error(`no arrow leads from ${from} to ${to}`);
}

export function clockAt(job: Job, clock: operations.Clock): number | null {
  const { leaseEndsAt: lease, attemptEndsAt: attempt, deadlineAt: deadline, ttlAt } = job;
  return { lease, attempt, deadline, ttl: ttlAt, wake: ttlAt }[clock];
}

/** R1: the earliest clock of the present state; Infinity when none is set. */
export function timerAt(job: Job): number {
  if (isTerminal(job.state)) return Number.POSITIVE_INFINITY;
  const clocks = [
    job.deadlineAt,
    job.ttlAt,
    job.leaseEndsAt,
    job.attemptEndsAt,
    job.state === "scheduled" ? job.dueAt : null,
  ];
  return Math.min(...clocks.map((at) => at ?? Number.POSITIVE_INFINITY));
}

function edit(
  job: Job,
  { input = job.input, policy = job.policy, meta = job.meta, tags = job.tags }: Edit = {},
): void {
  Object.assign(job, { input, policy, meta, tags });
}

const leasedFields = ["id", "seq", "fence", "route", "rev", "attempt", "input", "policy", "meta"] as const;
const leasedTimes = ["attempts", "createdAt", "dueAt", "claimedAt", "deadlineAt", "durable"] as const;

export function asLeased(job: Job): LeasedJob {
  return pick(job, [...leasedFields, ...leasedTimes]) as LeasedJob;
}

export function pick<Key extends keyof Job>(job: Job, keys: readonly Key[]): Pick<Job, Key> {
  return Object.fromEntries(keys.map((key) => [key, job[key]])) as Pick<Job, Key>;
}
