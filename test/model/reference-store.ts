/**
 * The specification of the store contract as a plain synchronous object: one function per operation, no index and no
 * cache. Written from src/store/*.ts and its rules (reference-rules.ts), not from any store; every store must answer as
 * this one does.
 *
 * Cursors and the number of rows looked at are a store's own business: compare walks, not pages.
 */
import { isKeyedGate } from "../../src/model/routing/lane.ts";
import { isTerminal } from "../../src/model/job/job-state.ts";
import { storeLimits } from "../../src/store/contract-limits.ts";
import { countedRoute } from "../../src/model/routing/route.ts";
import type { Route } from "../../src/model/routing/route.ts";
import type * as operations from "../../src/store/operations.ts";
import type { AuditAnswer, PruneAnswer, PruneRequest } from "../../src/store/upkeep.ts";
import { fieldEnd, packText } from "../../src/store/packing/packed-text.ts";
import type {
  DocPut,
  FeedBundle,
  FeedEvent,
  GatePut,
  JobRecord,
  LeasedJob,
  StateCount,
} from "../../src/store/records.ts";
import { addMs, asLeased, clockAt, pick, ReferenceRules, timerAt } from "./reference-rules.ts";
import type { Job, KeptGate } from "./reference-rules.ts";

const dueFields = [
  ...(["id", "seq", "fence", "route", "state", "rev"] as const),
  ...(["attempt", "policy", "attempts", "owner", "cancelAsked", "durable"] as const),
];
const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

export class ReferenceStore {
  readonly #rules: ReferenceRules;

  constructor(clock: () => number, epoch: number) {
    this.#rules = new ReferenceRules(clock, epoch);
  }

  submit(units: readonly operations.SubmitUnit[]): readonly operations.SubmitAnswer[] {
    return this.#rules.call(() =>
      units.map((unit) => {
        const hasHappened = unit.isRepeat === true && unit.jobs.some((job) => this.#rules.hasMade(job));
        return this.#rules.unit(() =>
          this.#rules.put(unit.jobs, hasHappened ? [] : unit.docs, {
            isIntake: true,
            ...(hasHappened ? {} : unit),
            isRepeat: unit.isRepeat === true,
          }),
        );
      }),
    );
  }

  claim(request: operations.ClaimRequest): operations.ClaimAnswer {
    return this.#rules.call(() => this.#claim(request));
  }

  heartbeat({ puts, read }: operations.HeartbeatRequest): operations.HeartbeatAnswer {
    return this.#rules.call(() => {
      const answers = puts.map((put) => this.#rules.putDoc(put));
      const ready = [...this.#rules.all.jobs.values()].filter(({ state }) => state === "ready");
      return {
        puts: answers,
        read: this.#readDocs(read),
        ready: [...new Set(ready.map(({ route }) => route))].sort((one, other) => one - other),
        nextDueInMs: this.#rules.nextInMs(),
        now: this.#rules.now,
      };
    });
  }

  #claim(request: operations.ClaimRequest): operations.ClaimAnswer {
    const { inputBytesMax = Number.POSITIVE_INFINITY } = request;
    const jobs: LeasedJob[] = [];
    let more = false;
    let bytes = 0;
    /** Gates that have refused somebody in this call, and when the first of them opens by itself. */
    const shut = new Set<string>();
    let opensAt = Number.POSITIVE_INFINITY;
    const turned = new Set<string>();
    /** Whether the job's gates refuse it; then they are shut. */
    const isRefused = (job: Job): boolean => {
      const gates = [...this.#rules.gatesOf(job.route), ...this.#rules.keyGatesOf(job)];
      if (gates.some(({ gate }) => shut.has(gate.key))) return true;
      const refusing = this.#rules.admit(job);
      // Then it waits for another job of its lane, whatever clock another gate has.
      const waitsForLane = refusing.some(({ isOwn }) => isOwn);
      for (const { gate, weight, isOwn } of refusing) {
        // The cap of a job's own refuses nobody else.
        if (isOwn) continue;
        shut.add(gate.key);
        if (!waitsForLane) opensAt = Math.min(opensAt, opensAtOf(gate, weight, this.#rules.now));
      }
      return refusing.length > 0;
    };
    for (const { routes, max, starts = 0 } of request.offers) {
      const isOffered = (job: Job): boolean =>
        job.state === "ready" && routes.includes(job.route) && !(timerAt(job) <= this.#rules.now);
      const passedOver = new Set<Job>();
      /** Of lanes only the heads, which change with each claim. */
      const offered = (): Job[] =>
        [...this.#rules.jobs((job) => job.laneKey === null), ...this.#rules.headsOfLanes()].filter(
          (job) => isOffered(job) && !passedOver.has(job),
        );
      const positionOf = (job: Job): number => this.#rules.positionOf(job);
      let taken = 0;
      let next = offered();
      while (next.length > 0 && taken < max && bytes < inputBytesMax) {
        const [job] = next.sort((a, b) => positionOf(a) - positionOf(b) || a.seq - b.seq) as [Job];
        if (isRefused(job)) passedOver.add(job);
        else {
          bytes += Buffer.byteLength(job.input);
          this.#rules.takeTurn(job);
          if (job.laneStep !== null) turned.add(job.queue);
          jobs.push(this.#rules.lease(job, request.owner, request.leaseMs, taken < starts));
          taken += 1;
        }
        next = offered();
      }
      more ||= max > 0 && (taken === max || next.length > 0);
    }
    this.#rules.forgetTurns(turned);
    const { now } = this.#rules;
    return {
      jobs,
      more,
      nextDueInMs: this.#rules.nextInMs(),
      now,
      ...(opensAt === Number.POSITIVE_INFINITY ? {} : { opensInMs: opensAt - now }),
    };
  }

  readRoutes(): readonly Route[] {
    return this.#rules.all.routes.toSorted((a, b) => a.number - b.number);
  }

  settleIfLeased(settles: readonly operations.Settle[]): readonly operations.SettleAnswer[] {
    return this.#rules.call(() =>
      settles.map((settle) => {
        const apply = (): operations.SettleAnswer => this.#rules.settle(settle);
        // Only effects can be refused after a write; a copy of everything for each settle takes its time.
        return settle.effects === undefined ? apply() : this.#rules.unit(apply);
      }),
    );
  }

  extendIfLeased({ owner, leaseMs, leases, wantsOthers }: operations.ExtendRequest): operations.ExtendAnswer {
    return this.#rules.call(() => {
      const answers = leases.map((lease) => {
        const job = this.#rules.all.jobs.get(lease.id);
        if (job === undefined) return "gone";
        if (job.seq !== lease.seq || job.state !== "running" || job.fence !== lease.fence) return "stale";
        job.leaseEndsAt = Math.max(job.leaseEndsAt ?? 0, this.#rules.now + leaseMs);
        if (lease.startedAgoMs !== undefined) {
          const isNews = job.startedAt === null;
          job.startedAt = this.#rules.now - lease.startedAgoMs;
          if (isNews) this.#rules.emitNews(job, "started");
        }
        if (lease.attemptEndsInMs !== undefined)
          job.attemptEndsAt = addMs(this.#rules.now, lease.attemptEndsInMs);
        return job.cancelAsked ? "cancel-asked" : "ok";
      });
      const grown = leases
        .filter(({ id, seen }, at) => {
          const isHeld = answers[at] === "ok" || answers[at] === "cancel-asked";
          return seen !== undefined && isHeld && this.#rules.journalOf({ id }).entries.length > seen;
        })
        .map(({ id }) => id);
      const isNamed = (job: Job): boolean =>
        leases.some(({ id, fence }) => id === job.id && fence === job.fence);
      const others = this.#rules.jobs(
        (job) => wantsOthers && job.state === "running" && job.owner === owner && !isNamed(job),
      );
      const found = { answers, others: others.map(asLeased), now: this.#rules.now };
      return grown.length === 0 ? found : { ...found, grown };
    });
  }

  recordIfLeased(writes: readonly operations.LeasedWrite[]): readonly operations.RecordAnswer[] {
    return this.#rules.call(() =>
      writes.map((write) => {
        if (write.effects === undefined) return this.#record(write);
        const before = { answer: "ok" as operations.RecordAnswer };
        this.#rules.unit(() => {
          before.answer = this.#record(write);
          const { answer } = before;
          return { kind: typeof answer === "object" && answer.kind !== "appended" ? "refused" : "ok" };
        });
        return before.answer;
      }),
    );
  }

  #record(write: operations.LeasedWrite): operations.RecordAnswer {
    const { id, seq, fence, progress, logs = [], overflow = "", entries, effects, setsBack, frames } = write;
    const { steps = [] } = write;
    const job = this.#rules.all.jobs.get(id);
    if (job === undefined) return "gone";
    if (job.seq !== seq || job.state !== "running" || job.fence !== fence) return "stale";
    if (progress !== undefined) {
      job.progress = progress;
      this.#rules.emitNews(job, "progress");
    }
    const lines = this.#rules.all.logs.get(id) ?? [];
    this.#rules.all.logs.set(id, lines);
    for (const body of logs) {
      const isFull = lines.length >= storeLimits.logLinesPerJobMax;
      if (isFull) lines.pop();
      lines.push({ number: lines.length + 1, at: this.#rules.now, body: isFull ? overflow : body });
    }
    if (frames !== undefined) this.#rules.writeFrames(job, frames);
    if (entries === undefined) return "ok";
    if (setsBack === true)
      Object.assign(job, { attempt: 1, attempts: job.cancelAsked ? job.attempts : null });
    const isNew = this.#rules.append(job, entries) > 0;
    if (isNew) for (const text of steps) this.#rules.emitNews({ ...job, progress: text }, "step");
    if (effects !== undefined && isNew) {
      const { jobs, docs, ...growth } = effects;
      const answer = this.#rules.put(jobs, docs, growth);
      if (answer.kind === "refused") return { kind: answer.reason, id: answer.id } as operations.RecordAnswer;
      this.#rules.flows.passOnAll();
    }
    return { kind: "appended", last: this.#rules.journalOf(job).entries.length, at: this.#rules.now };
  }

  changeIf(changes: readonly operations.Change[]): readonly operations.ChangeAnswer[] {
    return this.#rules.call(() =>
      changes.map(({ id, cases, token }) => {
        const job = this.#rules.all.jobs.get(id);
        if (job === undefined) return { kind: "gone" };
        const present = { state: job.state, rev: job.rev };
        if (cases.some(({ append }) => append !== undefined && this.#rules.isKnownKey(job, append.entry.key)))
          return { kind: "repeated", ...present };
        const applied = cases.findIndex(({ guard }) => this.#rules.holds(job, guard));
        if (applied < 0) {
          const isRepeat = token !== undefined && job.changeToken === token;
          return { kind: isRepeat ? "already" : "changed", state: job.state, rev: job.rev };
        }
        const { next, attempts = null, append } = cases[applied] as operations.ChangeCase;
        if (append !== undefined && this.#rules.appendRefusal(job, append) !== null)
          return { kind: "full", ...present };
        const from = job.state;
        const isReplay = isTerminal(from) && (next.to === "scheduled" || next.to === "blocked");
        if (isReplay && !this.#rules.flows.hasPassedOn(job))
          return { kind: "changed", state: from, rev: job.rev };
        const by = isReplay ? this.#rules.holderOf(job) : null;
        if (by !== null) return { kind: "key-held", by };
        if (attempts !== null) job.attempts = attempts;
        if (token !== undefined) job.changeToken = token;
        if (append !== undefined) this.#rules.append(job, [append.entry], true);
        this.#rules.change(job, next);
        const answer = {
          kind: "ok",
          applied,
          from,
          state: next.to === "deleted" ? null : job.state,
          rev: job.rev,
        } as const;
        this.#rules.flows.passOnAll();
        return answer;
      }),
    );
  }

  promoteDue({ max }: { max: number }): operations.PromoteAnswer {
    return this.#rules.call(() => {
      const due = this.#rules.jobs((job) => job.state === "scheduled" && job.dueAt <= this.#rules.now);
      const byDue = (a: Job, b: Job): number => a.dueAt - b.dueAt || a.seq - b.seq;
      const queues = [...Map.groupBy(due.sort(byDue), ({ route }) => route)].sort(
        ([a, [first]], [b, [second]]) => (first as Job).dueAt - (second as Job).dueAt || a - b,
      );
      const share = Math.max(1, Math.floor(max / queues.length));
      const promoted = queues.slice(0, max).flatMap(([, jobs]) => jobs.slice(0, share));
      for (const job of promoted) this.#rules.move(job, "ready", "promoted");
      const more = promoted.length < due.length;
      return { count: promoted.length, more, nextDueInMs: this.#rules.nextInMs() };
    });
  }

  readDue({ clock, max, cursor }: operations.ReadDueRequest): operations.ReadDueAnswer {
    return this.#rules.call(() => {
      const rung = this.#rules
        .jobs((job) => this.#rules.rang(job, clock))
        .sort((a, b) => timerAt(a) - timerAt(b) || a.seq - b.seq);
      const rest = rung.slice(cursor === null ? 0 : rung.findIndex((job) => job.id === cursor) + 1);
      const jobs = rest.slice(0, max).map((job) => {
        const lateMs = this.#rules.now - (clockAt(job, clock) as number);
        return { ...pick(job, dueFields), started: job.startedAt !== null, lateMs };
      });
      return {
        jobs,
        cursor: rest.length > max ? (jobs.at(-1)?.id ?? null) : null,
        now: this.#rules.now,
        nextInMs: this.#rules.nextInMs(),
      };
    });
  }

  putGates(puts: readonly GatePut[]): readonly operations.GatePutAnswer[] {
    return this.#rules.call(() => puts.map((put) => this.#rules.putGate(put)));
  }

  readGates(request: operations.ReadGatesRequest): operations.ReadGatesAnswer {
    return this.#rules.call(() => {
      const put = [...this.#rules.all.gates.values()];
      const all = "keys" in request ? [...put, ...this.#heldUnput(request.keys)] : put;
      const shown = all
        .sort((a, b) => byBytes(a.key, b.key))
        .map((gate) => ({
          ...(isKeyedGate(gate.key) ? this.#rules.keyGate(gate.key) : gate),
          held: this.#rules.heldOf(gate.key),
        }));
      const { now } = this.#rules;
      if ("keys" in request)
        return { gates: shown.filter(({ key }) => request.keys.includes(key)), cursor: null, now };
      const { prefix, after, max } = request;
      const found = shown.filter(
        ({ key }) => key.startsWith(prefix) && (after === null || byBytes(key, after) > 0),
      );
      const cursor = found.length > max ? (found[max - 1]?.key ?? null) : null;
      return { gates: found.slice(0, max), cursor, now };
    });
  }

  /** Gates of keys that nobody has put and that are held, or whose tokens are spent. */
  #heldUnput(keys: readonly string[]): readonly KeptGate[] {
    return keys
      .filter((key) => isKeyedGate(key) && !this.#rules.all.gates.has(key))
      .map((key) => this.#rules.keyGate(key))
      .filter(({ key, tatUs }) => tatUs > 0 || this.#rules.heldOf(key) > 0);
  }

  putDocs(puts: readonly DocPut[]): readonly operations.PutDocAnswer[] {
    return this.#rules.call(() => puts.map((put) => this.#rules.putDoc(put)));
  }

  readDueDocs({ max, cursor }: operations.ReadDueDocsRequest): operations.ReadDueDocsAnswer {
    return this.#rules.call(() => {
      const { now } = this.#rules;
      const due = [...this.#rules.all.docs.values()]
        .filter(({ dueAt }) => dueAt !== null && dueAt <= now)
        .sort(
          (a, b) =>
            (a.dueAt as number) - (b.dueAt as number) || byBytes(a.kind, b.kind) || byBytes(a.id, b.id),
        );
      const place = ({ dueAt, kind, id }: (typeof due)[number]): string => JSON.stringify([dueAt, kind, id]);
      const rest = due.slice(cursor === null ? 0 : due.findIndex((doc) => place(doc) === cursor) + 1);
      const docs = rest.slice(0, max);
      const last = docs.at(-1);
      return {
        docs,
        cursor: rest.length > max && last !== undefined ? place(last) : null,
        now,
        nextInMs: this.#rules.nextInMs(),
      };
    });
  }

  readDocs(request: operations.ReadDocsRequest): operations.ReadDocsAnswer {
    return this.#rules.call(() => this.#readDocs(request));
  }

  #readDocs(request: operations.ReadDocsRequest): operations.ReadDocsAnswer {
    const kept = [...this.#rules.all.docs.values()].filter(
      (doc) => doc.kind === request.kind && !this.#rules.isExpired(doc),
    );
    const docs = kept.sort((a, b) => byBytes(a.id, b.id));
    if ("ids" in request) return { docs: docs.filter(({ id }) => request.ids.includes(id)), cursor: null };
    const { prefix, after, max } = request;
    const found = docs.filter(
      ({ id }) => id.startsWith(prefix) && (after === null || byBytes(id, after) > 0),
    );
    return { docs: found.slice(0, max), cursor: found.length > max ? (found[max - 1]?.id ?? null) : null };
  }

  readJobs(ids: readonly string[]): readonly (JobRecord | null)[] {
    return ids
      .map((id) => this.#rules.all.jobs.get(id))
      .map((job) => (job === undefined ? null : asRecord(job)));
  }

  findJobs({ filter, max, scanMax, cursor }: operations.FindRequest): operations.FindAnswer {
    const before = cursor === null ? Number.POSITIVE_INFINITY : Number(cursor);
    const rows = this.#rules.jobs((job) => job.seq < before).reverse();
    const jobs: JobRecord[] = [];
    let scanned = 0;
    while (scanned < Math.min(rows.length, scanMax) && jobs.length < max) {
      const job = rows[scanned++] as Job;
      if (isFound(job, filter)) jobs.push(asRecord(job));
    }
    return { jobs, cursor: scanned < rows.length ? String(rows[scanned - 1]?.seq) : null, scanned };
  }

  countJobs(): readonly StateCount[] {
    const stateCounts = new Map<string, StateCount>();
    for (const { route, state } of this.#rules.all.jobs.values()) {
      const asked = countedRoute(this.#rules.all.routes.find(({ number }) => number === route) as Route);
      const key = JSON.stringify([asked, state]);
      stateCounts.set(key, { ...asked, state, count: (stateCounts.get(key)?.count ?? 0) + 1 });
    }
    return [...stateCounts.values()];
  }

  readFeed({ after, max, kinds, isBundled = false }: operations.FeedRequest): operations.FeedAnswer {
    if (after === -1) return { records: [], cursor: this.#rules.feedNumber };
    const all = this.#rules.feed.filter(({ number }) => number > after).slice(0, max);
    const records = all.map((record) => {
      if (kinds === undefined && !isBundled) return record;
      const events = record.events.map((event, index) => ({ ...event, index }));
      const wanted = events.filter(({ kind }) => kinds?.includes(kind) ?? true);
      const count = events.length;
      if (!isBundled) return { ...record, events: wanted, count };
      return { ...record, events: [], bundles: wanted.map(bundleOf), count };
    });
    return { records, cursor: records.at(-1)?.number ?? after };
  }

  readLogs({ id, after, max }: { id: string; after: number; max: number }): operations.LogsAnswer {
    const lines = (this.#rules.all.logs.get(id) ?? []).filter(({ number }) => number > after).slice(0, max);
    return { lines, cursor: lines.at(-1)?.number ?? after };
  }

  readFrames(reads: readonly operations.FramesRead[]): readonly operations.FramesAnswer[] {
    return reads.map(({ id, after, max }): operations.FramesAnswer => {
      const job = this.#rules.all.jobs.get(id);
      if (job === undefined) return { kind: "gone" };
      const { summary = null, chunks = [] } = this.#rules.all.outputs.get(id) ?? {};
      const { fence, number } = after ?? { fence: 0, number: 0 };
      const page = chunks.filter((chunk) => (chunk.fence - fence || chunk.number - number) > 0);
      const shown = after === null ? chunks.slice(-1) : page.slice(0, max);
      return { kind: "ok", chunks: shown, summary, ended: isTerminal(job.state) ? job.state : null };
    });
  }

  readJournal(reads: readonly operations.JournalRead[]): readonly operations.JournalAnswer[] {
    return this.#rules.call(() =>
      reads.map(({ id, after, max, lease }): operations.JournalAnswer => {
        const job = this.#rules.all.jobs.get(id);
        if (job === undefined) return { kind: "gone" };
        const isLeased = job.state === "running" && job.seq === lease?.seq && job.fence === lease.fence;
        if (lease !== undefined && !isLeased) return { kind: "stale" };
        const { entries, slips } = this.#rules.journalOf(job);
        return {
          kind: "ok",
          entries: entries
            .filter(({ number }) => number > after)
            .slice(0, max)
            .map(({ number, at, key, body }) => ({ number, at, key, body })),
          last: entries.length,
          slips,
          durable: job.durable,
          now: this.#rules.now,
        };
      }),
    );
  }

  prune(request: PruneRequest): PruneAnswer {
    return this.#rules.call(() => {
      const { max } = request;
      const doomed = this.#doomed(request).slice(0, max);
      for (const remove of doomed) remove();
      return { pruned: doomed.length, more: doomed.length === max, cursor: null };
    });
  }

  #doomed(request: PruneRequest): (() => void)[] {
    const { jobs, keys, docs } = this.#rules.all;
    if (request.what === "feed") {
      const old = this.#rules.feed
        .slice(0, -1)
        .filter(({ at }) => at <= this.#rules.now - request.olderThanMs);
      return old.map(
        (record) => () => void (this.#rules.feed = this.#rules.feed.filter((kept) => kept !== record)),
      );
    }
    if (request.what === "expired") {
      const over = [...keys]
        .filter(([, { until }]) => until <= this.#rules.now)
        .map(
          ([key]) =>
            () =>
              void keys.delete(key),
        );
      const dead = [...docs]
        .filter(([, doc]) => this.#rules.isExpired(doc))
        .map(([key, doc]) => () => {
          this.#rules.raiseFloor(doc);
          docs.delete(key);
        });
      return [...over, ...dead];
    }
    if (request.what === "surplus") {
      const finished = [...jobs.values()].filter(
        ({ queue, state }) => queue === request.queue && state === request.outcome,
      );
      const mayGo = finished.filter(({ keepUntil, keepsLane }) => keepUntil === null && keepsLane === 0);
      return mayGo
        .toSorted((one, other) => (one.endedAt as number) - (other.endedAt as number) || one.seq - other.seq)
        .slice(0, Math.max(0, finished.length - request.keep))
        .map((job) => () => this.#rules.drop(job));
    }
    const isDoomed = (job: Job): boolean => {
      if (!isTerminal(job.state)) return false;
      if (request.what === "kept") return job.keepUntil !== null && job.keepUntil <= this.#rules.now;
      const isOfQueue =
        request.queue === null ? !request.exceptQueues.includes(job.queue) : request.queue === job.queue;
      const isOld = (job.endedAt as number) <= this.#rules.now - request.olderThanMs && job.keepsLane === 0;
      return isOfQueue && isOld && job.state === request.outcome && job.keepUntil === null;
    };
    const hasOldResult = (job: Job): boolean =>
      request.what === "kept" && !isDoomed(job) && (job.resultUntil ?? Infinity) <= this.#rules.now;
    return [
      ...[...jobs.values()].filter(isDoomed).map((job) => () => this.#rules.drop(job)),
      ...[...jobs.values()]
        .filter(hasOldResult)
        .map((job) => () => void Object.assign(job, { result: null, resultUntil: null })),
    ];
  }

  auditIndexes(_request: { cursor: string | null; max: number }): AuditAnswer {
    return { checked: this.#rules.all.jobs.size, repaired: {}, cursor: null };
  }
}

/** When the gate's own clock lets so much pass; never where only a permit or a person opens it. */
function opensAtOf({ rate, tatUs, closedUntil }: KeptGate, weight: number, now: number): number {
  if (closedUntil === 8_640_000_000_000_000) return Number.POSITIVE_INFINITY;
  const tokensAt = rate === null ? 0 : Math.ceil((tatUs + weight * rate.stepUs - rate.burstUs) / 1000);
  const at = Math.max(closedUntil ?? 0, tokensAt);
  return at > now ? at : Number.POSITIVE_INFINITY;
}

function asRecord(job: Job): JobRecord {
  const {
    route: _route,
    digest: _digest,
    settledFence: _settled,
    changeToken: _token,
    resultUntil: _until,
    hold: _hold,
    freed: _freed,
    ...record
  } = job;
  return structuredClone(record);
}

function isFound(job: Job, filter: operations.JobFilter): boolean {
  const { states = [job.state], queue = job.queue, name = job.name, reason = job.reason } = filter;
  const isInTime =
    job.createdAt > (filter.createdAfter ?? -1) &&
    job.createdAt < (filter.createdBefore ?? Number.POSITIVE_INFINITY);
  const requires = JSON.stringify(filter.requires ?? job.requires ?? []);
  const isTagged = filter.tag === undefined || (job.tags?.includes(filter.tag) ?? false);
  return (
    isInTime &&
    isTagged &&
    states.includes(job.state) &&
    job.queue === queue &&
    job.name === name &&
    JSON.stringify(job.requires ?? []) === requires &&
    job.reason === reason &&
    (filter.keepsLane === undefined || job.keepsLane === 1)
  );
}

/** A bundle of one event. */
function bundleOf({ id, note, index = 0, ...shared }: FeedEvent): FeedBundle {
  const packed = note === undefined ? packText(id) : `${packText(id)}${fieldEnd}${packText(note)}`;
  return { ...shared, first: index, count: 1, packed, noteStart: note === undefined ? null : "" };
}
