/**
 * Runs one history on a store and on the reference model side by side and compares every answer. What a command needs
 * to know (ids, leases, revs) comes from the reference's answers, so both are always asked the same.
 */
import { expect } from "vitest";
import { afterCrash, afterExpiry, afterTimeout } from "../../src/model/job/after-run.ts";
import { createPolicyReader, writePolicy } from "../../src/model/job/job-policy.ts";
import { durableMarks } from "../../src/model/durable/durable-marks.ts";
import { liveStates, terminalStates } from "../../src/model/job/job-state.ts";
import { createPlacement } from "../../src/model/routing/placement.ts";
import { routeNumber } from "../../src/model/routing/route.ts";
import { foreverMs, limitGateKey, queueGateKey } from "../../src/model/limits/gate.ts";
import type { GateUse } from "../../src/model/limits/gate.ts";
import { groupGateKey, groupLane, keyedGate, laneStepOf, writeKeyUse } from "../../src/model/routing/lane.ts";
import type { LaneFields, LaneOrder } from "../../src/model/routing/lane.ts";
import type { JobState } from "../../src/model/job/job-state.ts";
import type {
  Append,
  HeartbeatRequest,
  ClaimOffer,
  Change,
  ChangeCase,
  Clock,
  Guard,
  JobFilter,
  JournalRead,
  LeasedWrite,
  Settle,
  SubmitUnit,
} from "../../src/store/operations.ts";
import type { PruneRequest } from "../../src/store/upkeep.ts";
import { partitionedStore } from "../../src/store/partitioned/partitioned-store.ts";
import type { DocPut, DueJob, EntryPut, GatePut, LeasedJob, NewJob } from "../../src/store/records.ts";
import type { Store } from "../../src/store/store.ts";
import { aChange, aJob, askCancel, finish, handBack, remove, replay, schedule } from "../support/builders.ts";
import { resume, signalled, suspend } from "../contract/cases/durable/journal-calls.ts";
import { openReference } from "../support/stores/reference-as-store.ts";
import type { HeldPlatform } from "../support/virtual/held-platform.ts";
import {
  auditAll,
  findAll,
  pruneAll,
  readAllDocs,
  readAllDueDocs,
  readAllDue,
  readWholeJournal,
  readWholeFeed,
  sortStateCounts,
} from "../support/walk.ts";
import type {
  ChangeKind,
  Command,
  DocShape,
  EntryShape,
  JobShape,
  NextShape,
  SettledJournal,
  UnitShape,
} from "./history-commands.ts";

const policies = [
  null,
  writePolicy({ attempts: 1 }),
  writePolicy({
    attempts: 2,
    backoff: { kind: "fixed", delayMs: 20, jitter: "none" },
    retention: { failedMs: 30 },
  }),
] as const;
/** What jobs ask for; a worker of these histories that has one of them has those before it, too. */
const requiresSets = [["gpu"], ["eu"], ["eu", "gpu"]];
const readPolicy = createPolicyReader();
const [gateA, gateB] = [limitGateKey("a"), limitGateKey("b")] as const;
const gateSets: readonly (readonly GateUse[])[] = [
  [],
  [{ key: gateA, weight: 1 }],
  [
    { key: gateA, weight: 2 },
    { key: gateB, weight: 1 },
  ],
];
const gateC = limitGateKey("c");
const gateD = limitGateKey("d");
const laneOrders: readonly (LaneOrder | null)[] = [null, "rank", "turn"];
const waiting: readonly JobState[] = ["scheduled", "ready", "suspended"];
const hugeInput = JSON.stringify("x".repeat(3000));

type SignalShape = Extract<Command, { do: "signal" }>["signals"][number];

const plainShape: JobShape = {
  ...{ given: null, digest: 0, queue: 0, requires: null, name: 0, dueInMs: 0, isInstant: false, level: 0 },
  ...{ slope: 1, ttlMs: null, deadlineInMs: null, unique: null, tag: null, gates: 0, lane: 0, policy: 0 },
  isLarge: false,
};

/** What the histories of a run have met, so that the test can tell whether they went everywhere they should. */
export type Sightings = Map<string, number>;

export class HistoryWorld {
  readonly #sightings: Sightings;
  readonly #store: Store;
  readonly #reference: Store;
  readonly #platform: HeldPlatform;
  readonly #ids: string[] = [];
  readonly #leases: LeasedJob[] = [];
  readonly #units: SubmitUnit[] = [];
  /** The last write of output under each lease, and its highest number. */
  readonly #frames = new Map<string, { readonly write: LeasedWrite; readonly last: number }>();
  /** What names begin with, in turn: what is written in one step must lie in one partition. */
  readonly #places: readonly string[];
  #minted = 0;
  #placed = 0;

  constructor(store: Store, platform: HeldPlatform, options: { epoch: number; sightings: Sightings }) {
    this.#store = store;
    this.#platform = platform;
    const { partitions = 1 } = store;
    const parts = Array.from({ length: partitions }, () => openReference(platform, options.epoch));
    this.#places = partitions === 1 ? [""] : placesIn(partitions);
    this.#reference = partitions === 1 ? (parts[0] as Store) : partitionedStore(parts, { platform });
    this.#sightings = options.sightings;
  }

  async run(commands: readonly Command[]): Promise<void> {
    for (const [index, command] of commands.entries())
      await this.#run(command, `command ${index + 1}: ${command.do}`);
    await this.#compareAll();
  }

  /** Asks both the same and compares. */
  async #both<Answer>(what: string, ask: (store: Store) => Promise<Answer>): Promise<Answer> {
    const expected = await ask(this.#reference);
    expect(await ask(this.#store), what).toEqual(expected);
    note(this.#sightings, what.replace(/^.*: /, ""), expected);
    return expected;
  }

  /** Puts of documents in one partition, and a read of what they have left. */
  #docsOf(shapes: readonly DocShape[]): HeartbeatRequest {
    const place = this.#nextPlace();
    const puts = shapes.map((shape) => docPut(shape, place));
    return { puts, read: { kind: (puts[0] as DocPut).kind, ids: puts.map(({ id }) => id) } };
  }

  async #run(command: Command, what: string): Promise<void> {
    switch (command.do) {
      case "advance":
        return this.#platform.advance(command.ms);
      case "submit": {
        const units = command.units.map((unit) => this.#unit(unit));
        this.#units.push(...units);
        const answers = await this.#both(what, (store) => store.submit(units));
        for (const answer of answers) if (answer.kind === "ok") this.#meet(answer.ids);
        return;
      }
      case "repeat": {
        if (this.#units.length === 0) return;
        const unit = { ...pickRecent(this.#units, command.unit), isRepeat: true };
        await this.#both(what, (store) => store.submit([unit]));
        return;
      }
      case "begin": {
        const { owner, lane, deadlineInMs, max } = command;
        const jobs = [{ ...plainShape, lane, deadlineInMs }];
        await this.#run({ do: "submit", units: [{ jobs, docs: [] }] }, what);
        const offer = { routes: [0], gates: 0, lanes: [0, 1, 1, 2][lane] as number, max, starts: 1 };
        return this.#run({ do: "claim", owner, leaseMs: 100, offers: [offer] }, what);
      }
      case "claim": {
        const request = {
          owner: `w${command.owner}`,
          leaseMs: command.leaseMs,
          offers: command.offers.map(offerOf),
        };
        const opens: (number | undefined)[] = [];
        const { jobs, more } = await this.#both(what, async (store) => {
          const { opensInMs, ...answer } = await store.claim(request);
          opens.push(opensInMs);
          return answer;
        });
        this.#leases.push(...jobs);
        if (command.offers.some(({ lanes }) => lanes > 0)) expectNotLater(opens, more, what);
        else expect(opens[1], what).toBe(opens[0]);
        return;
      }
      case "gate": {
        const put = gatePut(command, this.#nextPlace());
        await this.#both(what, (store) => store.putGates([put]));
        await this.#both(what, (store) => store.readGates({ keys: [put.key] }));
        return;
      }
      case "settle": {
        if (this.#leases.length === 0) return;
        const settles = await Promise.all(command.settles.map((settle) => this.#settle(settle)));
        const answers = await this.#both(what, (store) => store.settleIfLeased(settles));
        for (const [index, { kind }] of answers.entries()) {
          if (kind === "ok") this.#meet((settles[index]?.effects?.jobs ?? []).map(({ id }) => id));
        }
        return;
      }
      case "extend":
        return this.#extend(command, what);
      case "record": {
        if (this.#leases.length === 0) return;
        const { id, seq, fence } = pickRecent(this.#leases, command.lease);
        const logs = Array.from({ length: command.logs }, (_, index) => `${fence}-${index}`);
        const write = { id, seq, fence, logs, ...(command.hasProgress ? { progress: `${fence}` } : {}) };
        await this.#both(what, (store) => store.recordIfLeased([write]));
        return;
      }
      case "frames": {
        if (this.#leases.length === 0) return;
        const writes = command.writes.map((write) => this.#framesWrite(write));
        await this.#both(what, (store) => store.recordIfLeased(writes));
        const reads = writes.flatMap(({ id, fence }) => [
          { id, after: null, max: 1 },
          { id, after: { fence, number: 1 }, max: 2 },
        ]);
        await this.#both(`${what}, read`, (store) => store.readFrames(reads));
        return;
      }
      case "change": {
        if (this.#ids.length === 0) return;
        const changes = await Promise.all(command.changes.map((change) => this.#change(change)));
        await this.#both(what, (store) => store.changeIf(changes));
        return;
      }
      case "entries": {
        if (this.#leases.length === 0) return;
        const writes = command.writes.map((write) => this.#entries(write));
        await this.#both(what, (store) => store.recordIfLeased(writes));
        return this.#meet(writes.flatMap(({ effects }) => (effects?.jobs ?? []).map(({ id }) => id)));
      }
      case "signal": {
        if (this.#ids.length === 0) return;
        const changes = command.signals.map((signal) => this.#signal(signal));
        await this.#both(what, (store) => store.changeIf(changes));
        return;
      }
      case "journal": {
        if (this.#ids.length === 0) return;
        for (const read of command.reads.map((each) => this.#read(each)))
          await this.#both(what, (store) => readWholeJournal(store, read));
        return;
      }
      case "promote":
        await this.#both(what, (store) => store.promoteDue({ max: command.max }));
        return;
      case "duty":
        return this.#duty(command.clock, command.max, what);
      case "put": {
        const puts = command.docs.map((doc) => docPut(doc, this.#nextPlace()));
        await this.#both(what, (store) => store.putDocs(puts));
        return;
      }
      case "heartbeat": {
        const ready: (readonly number[])[] = [];
        const request = this.#docsOf(command.docs);
        await this.#both(what, async (store) => {
          const { ready: routes, ...answer } = await store.heartbeat(request);
          ready.push(routes);
          return answer;
        });
        // Over partitions a route that is not known to be empty counts as ready.
        const [expected = [], found = []] = ready;
        if ((this.#store.partitions ?? 1) === 1) expect(found, what).toEqual(expected);
        else expect(found, what).toEqual(expect.arrayContaining([...expected]));
        return;
      }
      case "prune": {
        const request = pruneRequest(command, this.#places.length);
        await this.#both(what, (store) => pruneAll(store, request));
        return;
      }
      case "look": {
        const { max, scanMax } = command;
        await this.#both(what, async (store) => {
          const jobs = await findAll(store, this.#filter(command.filter), max, scanMax);
          // Where a scan ends early in one partition, the order holds inside a page only.
          return this.#places.length === 1 ? jobs : jobs.sort((one, other) => (one.id < other.id ? -1 : 1));
        });
        await this.#both(what, async (store) => sortStateCounts(await store.countJobs()));
        return;
      }
    }
  }

  #meet(ids: readonly string[]): void {
    for (const id of ids) if (!this.#ids.includes(id)) this.#ids.push(id);
  }

  #nextPlace(): string {
    return pick(this.#places, this.#placed++);
  }

  #unit({ jobs, docs, checks = [] }: UnitShape, place = this.#nextPlace()): SubmitUnit {
    return {
      jobs: jobs.map((job) => this.#job(job, place)),
      ...(docs.length === 0 ? {} : { docs: docs.map((doc) => docPut(doc, place)) }),
      ...(checks.length === 0
        ? {}
        : { checks: checks.map(({ id, version }) => ({ kind: "kv", id: `${place}doc-${id}`, version })) }),
    };
  }

  #job(shape: JobShape, place: string): NewJob {
    const id = `${place}${shape.given === null ? `m${++this.#minted}` : `given-${shape.given}`}`;
    const due = (inMs: number) =>
      shape.isInstant ? { at: this.#platform.now() + inMs } : { inMs: Math.max(0, inMs) };
    return aJob({
      id,
      digest: shape.given === null ? null : `d${shape.digest}`,
      queue: `q${shape.queue}`,
      ...(shape.requires === null ? {} : { requires: pick(requiresSets, shape.requires) }),
      name: `n${shape.name}`,
      input: shape.isLarge ? hugeInput : `"${id}"`,
      policy: pick(policies, shape.policy),
      tags: shape.tag === null ? null : [`t${shape.tag}`, "all"],
      due: due(shape.dueInMs),
      rankBase: shape.level * 100,
      rankSlope: shape.slope,
      deadline: shape.deadlineInMs === null ? null : due(shape.deadlineInMs),
      ttlMs: shape.ttlMs,
      unique: shape.unique === null ? null : { ...shape.unique, key: `${place}k${shape.unique.key}` },
      // Jobs with gates lie in one partition.
      ...(this.#isGateHome(place) ? { gates: pick(gateSets, shape.gates) } : {}),
      ...(shape.lane === 0 ? {} : laneOf(shape, place)),
    });
  }

  async #settle({
    lease,
    fenceShift,
    next,
    effects,
    journal,
  }: Extract<Command, { do: "settle" }>["settles"][number]): Promise<Settle> {
    const { id, seq, fence } = pickRecent(this.#leases, lease);
    const settle = {
      id,
      seq,
      fence: fence + fenceShift,
      next: settleNext(next, this.#platform.now()),
      attempts: lease % 2 ? `log ${fence}` : null,
      ...(await this.#settled(id, journal)),
    };
    return effects === null ? settle : { ...settle, effects: this.#unit(effects, this.#placeOf(id)) };
  }

  /** Every settle of a durable run says so. */
  async #settled(id: string, journal: SettledJournal | undefined): Promise<Pick<Settle, "journal">> {
    const { last, durable } = await this.#known(id);
    if (journal === undefined && durable === 0) return {};
    const { seenShift, entries } = journal ?? { seenShift: null, entries: [] };
    const seen = seenShift === null ? null : last + seenShift;
    return { journal: { seen, entries: entries.map((entry) => entryOf(entry, "own")) } };
  }

  /** What is known of the journal of a job. */
  async #known(id: string): Promise<{ last: number; durable: number }> {
    const [known] = await this.#reference.readJournal([{ id, after: 0, max: 0 }]);
    return known?.kind === "ok" ? known : { last: 0, durable: 0 };
  }

  #placeOf(id: string): string {
    return this.#places.find((each) => id.startsWith(each)) as string;
  }

  #entries({
    lease,
    fenceShift,
    entries,
    effects,
    hasProgress,
    setsBack,
    steps,
  }: Extract<Command, { do: "entries" }>["writes"][number]): LeasedWrite {
    const { id, seq, fence } = pickRecent(this.#leases, lease);
    return {
      ...{ id, seq, fence: fence + fenceShift },
      entries: entries.map((entry) => entryOf(entry, "own")),
      ...(effects === null ? {} : { effects: this.#unit(effects, this.#placeOf(id)) }),
      ...(hasProgress ? { progress: `${fence}` } : {}),
      ...(setsBack ? { setsBack } : {}),
      ...(steps.length === 0 ? {} : { steps }),
    };
  }

  #signal(signal: SignalShape): Change {
    const claimed = signal.isOfRun ? this.#leases.map(({ id }) => id) : [];
    return signalOf(signal, pickRecent(claimed.length > 0 ? claimed : this.#ids, signal.job));
  }

  #read({ job, lease, after, max }: Extract<Command, { do: "journal" }>["reads"][number]): JournalRead {
    const held = lease === null || this.#leases.length === 0 ? null : pickRecent(this.#leases, lease);
    if (held === null) return { id: pickRecent(this.#ids, job), after, max };
    return { id: held.id, after, max, lease: { seq: held.seq, fence: held.fence } };
  }

  #isGateHome(place: string): boolean {
    const { partitions = 1 } = this.#store;
    const placement = createPlacement(partitions);
    return partitions === 1 || placement.ofName(place) === placement.ofGates;
  }

  async #extend(
    { owner, leases, wantsOthers }: Extract<Command, { do: "extend" }>,
    what: string,
  ): Promise<void> {
    const named = this.#leases.length === 0 ? [] : leases;
    const asked = new Set<string>();
    const request = {
      owner: `w${owner}`,
      leaseMs: 100,
      leases: await Promise.all(
        named.map(async ({ lease, startedAgoMs, attemptEndsInMs, seenShift = null }) => {
          const { id, seq, fence } = pickRecent(this.#leases, lease);
          const started = startedAgoMs === null ? {} : { startedAgoMs, attemptEndsInMs };
          if (seenShift === null || asked.has(id)) return { id, seq, fence, ...started };
          // A worker has seen one number.
          asked.add(id);
          const { last } = await this.#known(id);
          return { id, seq, fence, ...started, seen: Math.max(0, last + seenShift) };
        }),
      ),
      wantsOthers,
    };
    await this.#both(what, (store) => store.extendIfLeased(request));
  }

  async #change({
    job,
    kind,
    revShift,
    inMs,
  }: Extract<Command, { do: "change" }>["changes"][number]): Promise<Change> {
    const id = pickRecent(this.#ids, job);
    const [known] = await this.#reference.readJobs([id]);
    const marks = { mask: durableMarks.hasChildren, is: (known?.durable ?? 0) & durableMarks.hasChildren };
    const guard = {
      ...(revShift === null ? {} : { rev: (known?.rev ?? 0) + revShift }),
      // Every change that may end a durable run looks at its marks.
      ...(marks.is === 0 ? {} : { marks }),
    };
    return {
      id,
      cases: changeCases(id, kind, inMs).map((each) => ({ ...each, guard: { ...each.guard, ...guard } })),
    };
  }

  /** What a duty does: read the rung clock, let the model decide, write under the clock's guard. */
  async #duty(clock: Clock, max: number, what: string): Promise<void> {
    const rung = await this.#both(what, (store) => readAllDue(store, clock, max));
    const changes = rung.map((job) => ({ id: job.id, cases: [this.#decide(job, clock)] }));
    await this.#both(what, (store) => store.changeIf(changes));
  }

  #decide(job: DueJob, clock: Clock): ChangeCase {
    const policy = readPolicy(job.policy);
    const ended = {
      attempt: job.attempt,
      policy,
      attempts: readableLog(job.attempts),
      cancelAsked: job.cancelAsked,
    };
    const sources = { random: () => 0.5, strideMs: 100, now: this.#platform.now(), worker: job.owner ?? "" };
    const states = clock === "lease" || clock === "attempt" ? (["running"] as const) : liveStates;
    const { hasChildren } = durableMarks;
    const marks = { mask: hasChildren, is: job.durable & hasChildren };
    const guard = { states, rang: clock, fence: job.fence, ...(marks.is === 0 ? {} : { marks }) };
    if (clock === "wake") return { guard: { ...guard, states: ["suspended"] }, next: resume };
    if (clock === "deadline" || clock === "ttl") return { guard, next: afterExpiry(policy, clock) };
    return {
      guard,
      ...(clock === "lease" ? afterCrash(ended, job.started, sources) : afterTimeout(ended, sources)),
    };
  }

  #filter(number: number): JobFilter {
    const start = this.#platform.now() - 50;
    const filters: readonly JobFilter[] = [
      {},
      { states: ["ready", "scheduled"] },
      { states: ["failed", "cancelled", "running"] },
      { queue: "q1", name: "n0" },
      { requires: ["gpu"] },
      { queue: "q0", requires: [] },
      { tag: "t1" },
      { tag: "all", states: terminalStates },
      { reason: "because" },
      { keepsLane: true },
      { keepsLane: true, states: terminalStates, queue: "q0" },
      { states: ["suspended"] },
      { createdAfter: start, queue: "q0" },
    ];
    return pick(filters, number);
  }

  #framesWrite(given: Extract<Command, { do: "frames" }>["writes"][number]): LeasedWrite {
    const { steps, isRepeat, summary, restarts, drops } = given;
    const { id, seq, fence } = pickRecent(this.#leases, given.lease);
    const before = this.#frames.get(`${id}:${fence}`);
    if (isRepeat && before !== undefined) return before.write;
    let last = before?.last ?? 0;
    const chunks = steps.map((step) => ({ number: (last += step), body: `${fence}/${last}` }));
    const frames = {
      chunks,
      ...(summary === null ? {} : { summary }),
      ...(restarts ? { restarts } : {}),
      ...(drops === null ? {} : { dropsTo: { fence, number: drops } }),
    };
    const write = { id, seq, fence, frames };
    this.#frames.set(`${id}:${fence}`, { write, last });
    return write;
  }

  async #compareAll(): Promise<void> {
    await this.#both("all jobs", (store) => findAll(store));
    await this.#both("all stateCounts", async (store) => sortStateCounts(await store.countJobs()));
    await this.#both("the feed", (store) => readWholeFeed(store));
    await this.#both("all documents", (store) => readAllDocs(store, "kv", ""));
    await this.#both("all due documents", (store) => readAllDueDocs(store));
    await this.#both("all jobs by id", (store) => store.readJobs(this.#ids));
    for (const id of new Set(this.#ids))
      await this.#both(`the log of ${id}`, (store) => store.readLogs({ id, after: 0, max: 99 }));
    const reads = this.#ids.map((id) => ({ id, after: { fence: 0, number: 0 }, max: 99 }));
    await this.#both("all output", (store) => store.readFrames(reads));
    for (const id of new Set(this.#ids))
      await this.#both(`the journal of ${id}`, (store) => readWholeJournal(store, { id, after: 0, max: 9 }));
    expect(await auditAll(this.#store), "a healthy store needs no repair").toEqual({});
  }
}

export function note(sightings: Sightings, what: string, answer: unknown): void {
  const see = (kind: string): unknown =>
    sightings.set(`${what} ${kind}`, (sightings.get(`${what} ${kind}`) ?? 0) + 1);
  if (typeof answer === "string") see(answer);
  if (Array.isArray(answer)) for (const item of answer) note(sightings, what, item);
  if (typeof answer !== "object" || answer === null) return;
  const emitted = answer as Record<string, unknown>;
  for (const key of ["kind", "reason", "hows", "answers", "events"]) note(sightings, what, emitted[key]);
  for (const key of ["others", "grown"]) {
    const found = emitted[key];
    if (Array.isArray(found) && found.length > 0) see(key);
  }
}

/** Of each partition a beginning of names that lie there. */
function placesIn(partitions: number): string[] {
  const placement = createPlacement(partitions);
  const places = new Map<number, string>();
  for (let n = 0; places.size < partitions; n++) places.set(placement.ofName(`{${n}}`), `{${n}}`);
  return [...places.values()];
}

function pick<Item>(items: readonly Item[], index: number): Item {
  return items[index % items.length] as Item;
}

/** Small numbers name what came last: that is where the live jobs and leases are. */
function pickRecent<Item>(items: readonly Item[], index: number): Item {
  return items[items.length - 1 - (index % items.length)] as Item;
}

/**
 * Of a route's number the lowest two bits are the queue and the name, the rest says which capabilities the worker that
 * offers it has. A route is offered once per claim, as the engine does.
 */
function offerOf({
  routes,
  gates,
  lanes,
  ...offer
}: ClaimOffer & { readonly gates: number; readonly lanes: number }): ClaimOffer {
  const numbers = routes.flatMap((route) => {
    const [queue, name] = [`q${route & 1}`, `n${(route >> 1) & 1}`];
    const offered = [[], ...requiresSets.slice(0, route >> 2)];
    return offered.flatMap((requires) =>
      gateSets
        .slice(0, gates + 1)
        .map((uses) => routeNumber(queue, name, requires, uses, pick(laneOrders, lanes))),
    );
  });
  return { ...offer, routes: [...new Set(numbers)] };
}

/** The logs that settles write here are no packed logs; only those that the model wrote can be read. */
function readableLog(text: string | null): string | null {
  return text?.startsWith("{") === true ? text : null;
}

function docPut({ id, isDelete, guard, expiresInMs, dueInMs, add }: DocShape, place: string): DocPut {
  if (add !== null) {
    const { leaves: left, ...parts } = add;
    const leaves = left === null ? {} : { leaves: { kind: "kv", id: `${place}doc-${left}` } };
    return { kind: "kv", id: `${place}doc-${id}`, add: { ...parts, ...leaves }, expiresInMs };
  }
  const wanted = guard === -1 ? "any" : guard === -2 ? "absent" : { version: guard };
  return {
    kind: "kv",
    id: `${place}doc-${id}`,
    body: isDelete ? null : `${guard}`,
    guard: wanted,
    ...(dueInMs === null ? { expiresInMs } : { due: { inMs: dueInMs } }),
  };
}

/** Keys of a group lie in the queue, so that its lanes share one turn. */
function laneOf({ lane, level, queue, name, requires, gates }: JobShape, place: string): LaneFields {
  const key = `${place}k${lane % 2}`;
  const ofGroup = (cap: number): string =>
    writeKeyUse({ key: keyedGate(groupGateKey(`q${queue}`), key), weight: 1, cap });
  const alone = (of: string): string => writeKeyUse({ key: keyedGate(gateD, of), weight: 1, cap: 1 });
  const ofLimit = (weight: number): string => writeKeyUse({ key: keyedGate(gateC, key), weight, cap: null });
  const group = `q${queue}\t${key}`;
  const keys = `${queue} ${name} ${requires} ${gates}\t${key}`;
  const lanes: readonly LaneFields[] = [
    { laneKey: groupLane(`q${queue}`, key, "rank"), laneStep: null, laneGates: [ofGroup(1)] },
    { laneKey: `two ${group}`, laneStep: null, laneGates: [ofGroup(2)] },
    { laneKey: `fair ${group}`, laneStep: laneStepOf(1), laneGates: null },
    { laneKey: `fair ${group}`, laneStep: laneStepOf(2), laneGates: null },
    { laneKey: `keyed ${keys}`, laneStep: null, laneGates: [ofLimit(1)] },
    { laneKey: `both ${group}`, laneStep: laneStepOf(1), laneGates: [ofGroup(1), ofLimit(2)] },
    { laneKey: groupLane(`q${queue}`, key, "rank"), laneStep: null, laneGates: [ofGroup(2)] },
    // Several lanes of one route that share the key of a limit; each runs one job at a time.
    {
      laneKey: `shared ${group} ${level}`,
      laneStep: null,
      laneGates: [ofLimit(1), alone(`${key} ${level}`)],
    },
  ];
  return pick(lanes, lane - 1);
}

/** A store may look again too early, never too late. */
function expectNotLater(
  [expected, found = Infinity]: readonly (number | undefined)[],
  more: boolean,
  what: string,
): void {
  if (expected !== undefined && !more) expect(found, what).toBeLessThanOrEqual(expected);
}

function gatePut(command: Extract<Command, { do: "gate" }>, place: string): GatePut {
  const { key, guard, cap, stepUs, closedInMs, isIntakeClosed, emptiesRate } = command;
  const rate = stepUs === null ? null : { stepUs, burstUs: 3 * stepUs };
  const keys = [gateA, gateB, queueGateKey("q0"), queueGateKey("q1"), gateC, keyedGate(gateC, `${place}k1`)];
  return {
    key: pick(keys, key),
    perKey: pick(keys, key) === gateC ? { cap, rate } : null,
    guard: guard === -1 ? "any" : { version: guard },
    cap,
    rate,
    closed: closedInMs === null ? null : closedInMs < 0 ? { at: foreverMs } : { inMs: closedInMs },
    isIntakeClosed,
    body: null,
    emptiesRate,
    ...(isIntakeClosed ? { emits: { kind: "queue-changed", subject: "q0", extra: `${cap}` } } : {}),
  };
}

function entryOf({ key, marks, unread, reads, isLarge }: EntryShape, by: "own" | "foreign"): EntryPut {
  // They share some keys.
  const name = by === "own" && key > 1 ? `own ${key}` : `key ${key}`;
  return {
    key: name,
    body: isLarge ? hugeInput : `${name} with ${marks}`,
    ...(marks === 0 ? {} : { marks }),
    ...(unread === 0 ? {} : { unread }),
    ...(reads.length === 0 ? {} : { reads }),
  };
}

function signalOf({ entry, as, isBounded }: SignalShape, id: string): Change {
  const room = isBounded ? { unreadMax: { count: 2, size: 4 } } : {};
  const foreign = entryOf(entry, "foreign");
  const ending = { ...foreign, key: "ending", marks: durableMarks.isEnding };
  const append: Append = { entry: as === "ending" || as === "cancel" ? ending : foreign, ...room };
  const { hasUndo, isEnding, hasChildren } = durableMarks;
  const [isPlain, hasBegun] = [0, isEnding].map((is) => ({ mask: hasUndo | isEnding | hasChildren, is }));
  const resumes = (guard: Partial<Guard>): ChangeCase => ({
    ...{ guard: { states: ["suspended"], ...guard }, next: resume, append },
  });
  const stays = (states: readonly JobState[], guard: Partial<Guard> = {}): ChangeCase => ({
    ...{ guard: { states, ...guard }, next: signalled, append },
  });
  const others = liveStates.filter((state) => state !== "suspended");
  switch (as) {
    case "live":
      return { id, cases: [resumes({}), stays(others)] };
    case "any":
      return { id, cases: [resumes({}), stays([...others, ...terminalStates])] };
    case "suspended":
      return { id, token: "the token", cases: [resumes({})] };
    case "ending":
      return { id, cases: [resumes({ marks: isPlain! }), stays(others, { marks: isPlain! })] };
    case "cancel":
      return {
        id,
        cases: [
          { guard: { states: waiting, marks: isPlain! }, next: finish("cancelled") },
          {
            guard: { states: waiting, marks: hasBegun! },
            next: finish("cancelled", { reason: "ended" }),
            append,
          },
          stays(["running"]),
        ],
      };
  }
}

function settleNext(shape: NextShape, now: number): Settle["next"] {
  if (shape.to === "finish")
    return finish(shape.outcome, {
      keepMs: shape.keepMs,
      ...(shape.keepResultMs === null ? {} : { keepResultMs: shape.keepResultMs }),
      result: shape.outcome === "completed" ? "1" : null,
      ...(shape.keepsLane && shape.keepMs === null ? { keepsLane: true } : {}),
    });
  if (shape.to === "retry")
    return schedule(shape.inMs, {
      countsAttempt: shape.counts,
      ttlMs: shape.ttlMs,
      ...(shape.keepsLane ? { keepsLane: true } : {}),
      ...(shape.isAnew === true ? { newRound: true } : {}),
    });
  if (shape.to === "suspend") {
    const { wakeInMs, isInstant, counts, attempt, keepsLane } = shape;
    return suspend({
      wake: wakeInMs === null ? null : isInstant ? { at: now + wakeInMs - 5 } : { inMs: wakeInMs },
      countsAttempt: counts,
      ...(attempt === null ? {} : { attempt }),
      ...(keepsLane ? { keepsLane: true } : {}),
    });
  }
  return handBack;
}

function changeCases(id: string, kind: ChangeKind, inMs: number): readonly ChangeCase[] {
  const edit = { input: inMs === 0 ? hugeInput : "edited", meta: `${inMs}` };
  switch (kind) {
    case "cancel":
      return [
        ...aChange(id, waiting, finish("cancelled")).cases,
        ...aChange(id, ["running"], askCancel).cases,
      ];
    case "reschedule":
      return aChange(
        id,
        waiting,
        schedule(inMs, { event: "rescheduled", rankBase: inMs, ttlMs: inMs === 5 ? 5 : null }),
      ).cases;
    case "replay":
      return aChange(id, terminalStates, replay(inMs, inMs === 1 ? { edit } : {})).cases;
    case "remove":
      return aChange(id, [...waiting, ...terminalStates], remove).cases;
    case "edit":
      return aChange(id, waiting, { to: "same", event: "edited", edit }).cases;
    case "rank":
      return aChange(id, waiting, { to: "same", event: "edited", rankBase: -inMs, rankSlope: 1 }).cases;
    case "revoke":
      return aChange(id, ["running"], handBack).cases;
    case "no-handler":
      return aChange(id, ["ready"], finish("failed", { reason: "no-handler" })).cases;
    case "restart":
      return aChange(id, [...waiting, ...terminalStates], replay(inMs, { newRound: true })).cases;
    case "resume":
      return aChange(id, ["suspended"], resume).cases;
    case "end":
      return aChange(id, ["suspended"], finish("failed")).cases;
  }
}

/** Over partitions a count is kept by shares, so which jobs go is theirs to say. */
function pruneRequest(
  { what, olderThanMs, max }: Extract<Command, { do: "prune" }>,
  partitions: number,
): PruneRequest {
  if (what === 0) return { what: "kept", max };
  if (what === 1) return { what: "expired", max };
  if (what === 2) return { what: "feed", olderThanMs, max };
  const outcome = pick(terminalStates, what);
  if (olderThanMs === 5 && partitions === 1)
    return { what: "surplus", outcome, queue: "q0", keep: max - 1, max, cursor: null };
  return {
    what: "history",
    outcome,
    queue: max === 1 ? "q0" : null,
    exceptQueues: max === 2 ? ["q1"] : [],
    olderThanMs,
    max,
    cursor: null,
  };
}
