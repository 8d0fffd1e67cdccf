/**
 * What is measured, in which order and over how many jobs. A group holds everything that is compared with each other:
 * its entries take turns, round by round, so that a busy moment of the machine hits all of them.
 */
import { availableParallelism } from "node:os";
import type { Asked } from "./command-line.ts";
import { unhurriedWorks } from "./figures.ts";
import type { Backlog, Mode, StoreName, SystemName, Work } from "./figures.ts";

export interface Entry {
  readonly system: SystemName;
  /** Slots of a worker, or enqueues in flight; null where the system has no such setting. */
  readonly concurrency: number | null;
  readonly processes: number;
  readonly backlog: Backlog | null;
  readonly mode: Mode;
}

export interface Group {
  readonly work: Work;
  readonly store: StoreName;
  readonly jobs: number;
  readonly rounds: number;
  readonly entries: readonly Entry[];
}

const enqueuesInFlight = 1000;
/** The slots of a worker that was told nothing. */
const defaultSlots = 10;

function millrace(concurrency: number, backlog: Backlog | null = null): Entry {
  return { system: "millrace", concurrency, processes: 1, backlog, mode: "plain" };
}

function plainjob({ processes = 1, backlog = null }: Partial<Entry> = {}): Entry {
  return { system: "plainjob", concurrency: null, processes, backlog, mode: "plain" };
}

function peer(system: SystemName, concurrency: number | null, mode: Mode = "plain", processes = 1): Entry {
  return { system, concurrency, processes, backlog: null, mode };
}

type Part = Pick<Group, "work" | "jobs" | "entries"> & { readonly rounds?: number };

export function planGroups(asked: Asked): readonly Group[] {
  return partsOf[asked.store](asked)
    .filter(({ work }) =>
      asked.only === null ? !asked.isQuick || !unhurriedWorks.includes(work) : asked.only === work,
    )
    .map((part) => (asked.isAlone ? withoutPeers(part) : part))
    .filter(({ entries }) => entries.length > 0)
    .map((part) => ({
      store: asked.store,
      ...part,
      rounds: part.rounds ?? asked.rounds ?? (asked.isQuick ? 1 : 3),
    }));
}

function withoutPeers(part: Part): Part {
  return { ...part, entries: part.entries.filter(({ system }) => system === "millrace") };
}

function sqliteParts(asked: Asked): readonly Part[] {
  const { isQuick, jobs } = asked;
  const many = jobs ?? (isQuick ? 10_000 : 100_000);
  // A slow work gets fewer jobs under --quick: strict single commits wait for the disk each time.
  const few = jobs ?? (isQuick ? 2_000 : 100_000);
  const bulk = jobs ?? (isQuick ? 30_000 : 300_000);
  return [
    { work: "enqueue-single", jobs: few, entries: [millrace(1), plainjob()] },
    { work: "enqueue-concurrent", jobs: many, entries: [millrace(enqueuesInFlight)] },
    { work: "enqueue-bulk", jobs: bulk, entries: [millrace(1), plainjob()] },
    { work: "drain", jobs: many, entries: [...drains(), ...(isQuick ? [] : crowdedDrains())] },
    ...specialDrains(many, () => [millrace(100)]),
    besideClosed(isQuick, many),
    counted(many),
    ...sandboxed(asked, []),
    restedLatency(isQuick, jobs, [millrace(defaultSlots), plainjob()]),
    delayed(asked, [plainjob()]),
    cancel(isQuick, jobs),
    stall(isQuick, jobs),
    permit(isQuick, jobs),
    calls(isQuick, jobs, []),
    tracing(many),
    ...schedules(jobs),
    topics(isQuick, jobs),
    ...flows(isQuick, jobs, []),
    ...durableRuns(isQuick, jobs, (slots) => [peer("openworkflow", slots)]),
    ...events(isQuick, jobs, many),
    ...frames(isQuick, jobs),
    { work: "idle", jobs: 0, rounds: 1, entries: [...idleFleets(asked), plainjob()] },
  ];
}

/** A bucket beside a SQLite file: what the log of its pages costs. */
function bucketParts({ isQuick, jobs }: Asked): readonly Part[] {
  const beside = (concurrency: number): readonly Entry[] => [
    millrace(concurrency),
    { ...millrace(concurrency), system: "millrace-sqlite" },
  ];
  const many = jobs ?? (isQuick ? 20_000 : 100_000);
  const samples = jobs ?? (isQuick ? 100 : 500);
  const alone = [millrace(1)];
  return [
    { work: "enqueue-concurrent", jobs: many, entries: beside(enqueuesInFlight) },
    { work: "enqueue-bulk", jobs: jobs ?? (isQuick ? 30_000 : 300_000), entries: beside(1) },
    { work: "drain", jobs: many, entries: beside(100) },
    { work: "steady", jobs: jobs ?? (isQuick ? 20_000 : 80_000), entries: [millrace(100)] },
    { work: "acknowledge", jobs: samples, entries: beside(1) },
    { work: "latency", jobs: samples, entries: beside(defaultSlots) },
    { work: "reopen", jobs: jobs ?? 100_000, entries: alone },
    ...(isQuick || jobs !== null
      ? []
      : [{ work: "reopen" as const, jobs: 1_000_000, rounds: 1, entries: alone }]),
    { work: "take-over", jobs: jobs ?? (isQuick ? 5 : 20), rounds: 1, entries: alone },
    { work: "idle", jobs: 0, rounds: 1, entries: [millrace(defaultSlots)] },
  ];
}

function drains(): readonly Entry[] {
  const processes = availableParallelism();
  return [millrace(1), millrace(100), plainjob(), ...(processes > 1 ? [plainjob({ processes })] : [])];
}

/** In one group with the drains on an empty store, because it is those that they are compared with. */
function crowdedDrains(): readonly Entry[] {
  const backlogs: readonly Backlog[] = ["1000000 waiting", "1000000 finished"];
  return backlogs.flatMap((backlog) => [millrace(100, backlog), plainjob({ backlog })]);
}

/** On an idle queue: each job after a pause. */
function restedLatency(isQuick: boolean, jobs: number | null, entries: readonly Entry[]): Part {
  const rested = entries.map((entry): Entry => ({ ...entry, mode: "rested" }));
  return { work: "latency", jobs: jobs ?? (isQuick ? 200 : 1000), entries: rested };
}

/** Drains of jobs with something special about them, each in turns with the same drain of plain jobs. */
function specialDrains(jobs: number, entriesOf: (work: Work) => readonly Entry[]): readonly Part[] {
  return specialWorks.map((work) => {
    const entries = entriesOf(work);
    const plain = entries
      .filter(({ mode }) => mode === "plain")
      .map((entry): Entry => ({ ...entry, mode: "plain-jobs" }));
    const more: readonly Entry[] = work === "limited" ? [{ ...millrace(100), mode: "wide-cap" }] : [];
    // A key of 100,000 needs a second job for its cap to be asked.
    return { work, jobs: work === "keyed" ? 2 * jobs : jobs, entries: [...plain, ...entries, ...more] };
  });
}

const specialWorks = [
  ...(["retry", "unique", "tagged", "limited", "rated"] as const),
  ...(["grouped", "fifo", "keyed", "budget"] as const),
];

/** Plain jobs, in turns without others and beside as many keys as wait at closed gates. */
function besideClosed(isQuick: boolean, jobs: number): Part {
  const entry = millrace(100, isQuick ? "2000 closed keys" : "100000 closed keys");
  return { work: "closed", jobs, entries: [{ ...millrace(100), mode: "plain-jobs" }, entry] };
}

/** Plain jobs, in turns with metrics and without. */
function counted(jobs: number): Part {
  return { work: "metrics", jobs, entries: [{ ...millrace(100), mode: "no-metrics" }, millrace(100)] };
}

/**
 * Handlers in sandboxes, as many at once as there are cores: one that does nothing and one that takes 5 ms of
 * CPU. BullMQ has sandboxes for files and nothing for programs of other languages: beside the pool stand its child
 * processes.
 */
function sandboxed({ isQuick, jobs }: Asked, peers: readonly SystemName[]): readonly Part[] {
  const slots = availableParallelism();
  const entries = (["plain", "busy"] as const).flatMap((mode): readonly Entry[] => [
    { ...millrace(slots), mode },
    ...peers.map((system) => peer(system, slots, mode)),
  ]);
  const works = ["thread", "process", "pool"] as const;
  return works.map((work) => ({ work, jobs: jobs ?? (isQuick ? 1_000 : 5_000), entries }));
}

/**
 * Due to start, on an idle store and while a flood of others is promoted. A peer is asked only on an idle store:
 * nobody works on the queue of the flood, and a peer makes jobs ready only for a queue that somebody works on.
 */
function delayed({ isQuick, jobs, flood }: Asked, peers: readonly Entry[]): Part {
  const others = flood ?? (isQuick ? 20_000 : 200_000);
  const entries = [millrace(defaultSlots), ...peers, millrace(defaultSlots, `${others} due at once`)];
  return { work: "delayed", jobs: jobs ?? (isQuick ? 200 : 1000), entries };
}

/** One process, and fleets of them, with and without a total to be shared; in a hurry one process alone. */
function idleFleets({ isQuick, processes: asked }: Asked, more: readonly Mode[] = []): readonly Entry[] {
  const sizes = asked === null ? (isQuick ? [1] : [1, 8, 50]) : [asked];
  const modes: readonly Mode[] = isQuick && asked === null ? ["plain"] : ["plain", "totals", ...more];
  return sizes.flatMap((processes) =>
    modes.map((mode): Entry => ({ ...millrace(defaultSlots), processes, mode })),
  );
}

/** From one connection to the store to another. */
function cancel(isQuick: boolean, jobs: number | null): Part {
  return { work: "cancel", jobs: jobs ?? (isQuick ? 50 : 500), rounds: 1, entries: [millrace(1)] };
}

/** Of a process that stood still, each time for two seconds. */
function stall(isQuick: boolean, jobs: number | null): Part {
  return { work: "stall", jobs: jobs ?? (isQuick ? 5 : 50), rounds: 1, entries: [millrace(defaultSlots)] };
}

/** From a holder in one process to the next in another. */
function permit(isQuick: boolean, jobs: number | null): Part {
  const entries = [{ ...millrace(1), processes: 2 }];
  return { work: "permit", jobs: jobs ?? (isQuick ? 100 : 500), rounds: 1, entries };
}

/** On an idle store, one call behind the other, and a hundred in flight. */
function calls(isQuick: boolean, jobs: number | null, peers: readonly SystemName[]): Part {
  const ways: readonly Partial<Entry>[] = [
    { concurrency: 1, mode: "rested" },
    { concurrency: 1 },
    { concurrency: 100 },
  ];
  const systems: readonly SystemName[] = ["millrace", ...peers];
  const entries = ways.flatMap((way) =>
    systems.map((system): Entry => ({ ...peer(system, 1, "plain", 2), ...way })),
  );
  return { work: "call", jobs: jobs ?? (isQuick ? 200 : 1000), entries };
}

/** The drain without telemetry, with that of an application that has no SDK, and with one that records every span. */
function tracing(jobs: number): Part {
  const modes = ["plain-jobs", "api-only", "sdk"] as const;
  return { work: "tracing", jobs, entries: modes.map((mode): Entry => ({ ...millrace(100), mode })) };
}

/** Publishes to ten subscriptions, in turns with enqueueMany of the same ten jobs. */
function topics(isQuick: boolean, jobs: number | null): Part {
  const entries = [
    { ...millrace(enqueuesInFlight), mode: "plain-jobs" as const },
    millrace(enqueuesInFlight),
  ];
  return { work: "topics", jobs: jobs ?? (isQuick ? 10_000 : 100_000), entries };
}

/** Beside what peers have of it: chains and fans. */
function flows(isQuick: boolean, jobs: number | null, peers: readonly Entry[]): readonly Part[] {
  const entries = [millrace(100), ...peers];
  const many = jobs ?? (isQuick ? 10_000 : 100_000);
  const samples = jobs ?? (isQuick ? 20 : 200);
  return [
    { work: "flow-chain", jobs: many, entries },
    { work: "flow-alone", jobs: samples, entries },
    { work: "flow-fan", jobs: many, entries },
    { work: "first-wins", jobs: jobs ?? (isQuick ? 5 : 100), rounds: 1, entries: [millrace(100)] },
    { work: "flow-submit", jobs: jobs ?? (isQuick ? 3 : 20), entries: [millrace(100)] },
  ];
}

/** Durable runs. The peers that have any are asked only for what each of them does in the same way. */
function durableRuns(
  isQuick: boolean,
  jobs: number | null,
  peers: (slots: number) => readonly Entry[],
): readonly Part[] {
  const alone = [millrace(100)];
  const samples = jobs ?? (isQuick ? 100 : 1000);
  return [
    { work: "steps", jobs: jobs ?? (isQuick ? 2_000 : 20_000), entries: [...alone, ...peers(100)] },
    { work: "steps-sequential", jobs: samples, entries: [millrace(1), ...peers(1)] },
    { work: "signal-resume", jobs: samples, entries: alone },
    { work: "invoke", jobs: samples, entries: alone },
    { work: "suspend-resume", jobs: jobs ?? (isQuick ? 5_000 : 50_000), entries: alone },
    { work: "suspended", jobs: jobs ?? (isQuick ? 10_000 : 1_000_000), rounds: 1, entries: alone },
    { work: "suspended-memory", jobs: jobs ?? (isQuick ? 10_000 : 100_000), rounds: 1, entries: alone },
    { work: "replay", jobs: jobs ?? (isQuick ? 10 : 50), entries: alone },
  ];
}

/** Ten thousand that fire every hour: what they cost while none is due, and how long until all have fired. */
function schedules(jobs: number | null): readonly Part[] {
  const entries = [millrace(1)];
  return [
    { work: "schedules", jobs: jobs ?? 10_000, entries },
    { work: "schedules-idle", jobs: jobs ?? 10_000, rounds: 1, entries },
  ];
}

/** A drain under the eyes of others, how late they hear of a settle, and how fast they read a feed. */
function events(isQuick: boolean, jobs: number | null, many: number): readonly Part[] {
  const modes = ["plain-jobs", "1-listener", "10-in-one", "10-alarms", "10-listeners"] as const;
  return [
    { work: "events", jobs: many, entries: modes.map((mode): Entry => ({ ...millrace(100), mode })) },
    { work: "events-delay", jobs: jobs ?? (isQuick ? 100 : 1000), entries: [millrace(1)] },
    { work: "events-read", jobs: jobs ?? (isQuick ? 25_000 : 250_000), entries: [millrace(1)] },
  ];
}

/** Output of one job: frames written and read, how late a reader has one, and what a thousand readers cost. */
function frames(isQuick: boolean, jobs: number | null): readonly Part[] {
  const entries = [millrace(1)];
  return [
    { work: "frames", jobs: jobs ?? (isQuick ? 50_000 : 500_000), entries },
    { work: "frames-delay", jobs: jobs ?? (isQuick ? 100 : 1000), entries },
    { work: "frames-readers", jobs: jobs ?? 100, entries },
  ];
}

function postgresParts(asked: Asked): readonly Part[] {
  const { isQuick, jobs } = asked;
  const many = jobs ?? (isQuick ? 4_000 : 200_000);
  // The peers commit single enqueues one by one: 200,000 of them would take minutes per round.
  const few = jobs ?? (isQuick ? 400 : 20_000);
  const concurrent = jobs ?? (isQuick ? 1_000 : 100_000);
  const special = jobs ?? (isQuick ? 4_000 : 100_000);
  // One at a time per key, graphile-worker takes more than a minute for 100,000.
  const serial = jobs ?? (isQuick ? 4_000 : 20_000);
  const everybody = (slots: number): readonly Entry[] => [
    millrace(slots),
    peer("pg-boss", slots),
    peer("graphile-worker", slots),
  ];
  const across = [
    { ...millrace(defaultSlots), processes: 2 },
    peer("pg-boss", null, "notify", 2),
    peer("graphile-worker", defaultSlots, "default", 2),
  ];
  const idlePeers = across.slice(1).map((entry): Entry => ({ ...entry, processes: 1 }));
  return [
    { work: "enqueue-single", jobs: few, entries: everybody(1) },
    { work: "enqueue-concurrent", jobs: concurrent, entries: everybody(enqueuesInFlight) },
    { work: "enqueue-bulk", jobs: many, entries: everybody(1) },
    { work: "drain", jobs: many, entries: [...postgresDrains(), ...(isQuick ? [] : longDrains())] },
    // For fair turns neither peer has anything, for a cap per key graphile-worker has not.
    ...specialDrains(special, (work) => [
      millrace(100),
      ...(work === "unique" || work === "fifo" || work === "keyed" ? [peer("pg-boss", null)] : []),
      ...(work === "fifo" ? [peer("graphile-worker", 100, "local-queue")] : []),
    ]).map((part) => (part.work === "fifo" ? { ...part, jobs: serial } : part)),
    besideClosed(isQuick, special),
    counted(special),
    ...sandboxed(asked, []),
    { work: "latency", jobs: jobs ?? (isQuick ? 30 : 1000), entries: across },
    delayed(asked, []),
    cancel(isQuick, jobs),
    stall(isQuick, jobs),
    permit(isQuick, jobs),
    calls(isQuick, jobs, []),
    tracing(special),
    ...schedules(jobs),
    topics(isQuick, jobs),
    ...flows(isQuick, jobs, [peer("pg-boss", null, "fetch")]),
    ...durableRuns(isQuick, jobs, (slots) => [peer("@dbos-inc/dbos-sdk", null), peer("openworkflow", slots)]),
    ...events(isQuick, jobs, special),
    ...frames(isQuick, jobs),
    { work: "idle", jobs: 0, rounds: 1, entries: [...idleFleets(asked), ...idlePeers] },
  ];
}

function postgresDrains(): readonly Entry[] {
  return [
    millrace(100),
    peer("graphile-worker", 100, "local-queue"),
    peer("pg-boss", null, "fetch"),
    { ...millrace(100), mode: "no-history" },
    peer("pg-boss", null, "work"),
    peer("graphile-worker", 100, "default"),
    millrace(1),
  ];
}

/**
 * In one group with the others, because it is those that they are compared with. The few jobs of a run in a hurry
 * would fill a local queue of 2,000 only twice.
 */
function longDrains(): readonly Entry[] {
  return [
    peer("graphile-worker", 100, "local-queue-2000"),
    { ...millrace(100), mode: "reader-open" },
    millrace(100, "10000000 finished"),
  ];
}

const inPartitions = ["partitions-16", "partitions-16-totals"] as const;

function redisParts(asked: Asked): readonly Part[] {
  const { isQuick, jobs } = asked;
  const many = jobs ?? (isQuick ? 10_000 : 100_000);
  // In a hurry all drains start from one filled store. One job at a time, the peer takes half a minute for 100,000.
  const few = jobs ?? (isQuick ? 2_000 : 20_000);
  const bulk = jobs ?? (isQuick ? 20_000 : 200_000);
  const special = jobs ?? (isQuick ? 4_000 : 100_000);
  // BullMQ has no tags and no budgets, and groups are not in its open source.
  const lacking: readonly Work[] = ["tagged", "grouped", "fifo", "keyed", "budget"];
  const both = (slots: number, more: Partial<Entry> = {}): readonly Entry[] => [
    { ...millrace(slots), ...more },
    { ...peer("bullmq", slots), ...more },
  ];
  const spread = [...both(10), ...both(100), ...both(100, { processes: 4 })];
  const drained: readonly Part[] = isQuick
    ? [{ work: "drain", jobs: jobs ?? 4_000, entries: [...both(1), ...spread] }]
    : [
        { work: "drain", jobs: few, entries: both(1) },
        { work: "drain", jobs: many, entries: [...spread, ...both(100, { backlog: "1000000 waiting" })] },
      ];
  return [
    { work: "enqueue-single", jobs: few, entries: both(1) },
    { work: "enqueue-concurrent", jobs: many, entries: both(enqueuesInFlight) },
    { work: "enqueue-bulk", jobs: bulk, entries: both(1) },
    ...drained,
    ...specialDrains(special, (work) => (lacking.includes(work) ? [millrace(100)] : both(100))),
    besideClosed(isQuick, special),
    counted(special),
    ...sandboxed(asked, ["bullmq"]),
    { work: "latency", jobs: jobs ?? (isQuick ? 1000 : 10_000), entries: both(defaultSlots) },
    restedLatency(isQuick, jobs, both(defaultSlots)),
    delayed(asked, [peer("bullmq", defaultSlots)]),
    cancel(isQuick, jobs),
    stall(isQuick, jobs),
    permit(isQuick, jobs),
    calls(isQuick, jobs, ["bullmq"]),
    tracing(special),
    ...schedules(jobs),
    topics(isQuick, jobs),
    ...flows(isQuick, jobs, [peer("bullmq", 100)]),
    ...durableRuns(isQuick, jobs, () => []),
    ...events(isQuick, jobs, special),
    ...frames(isQuick, jobs),
    {
      work: "idle",
      jobs: 0,
      rounds: 1,
      entries: [...idleFleets(asked, inPartitions), peer("bullmq", defaultSlots)],
    },
    { work: "footprint", jobs: jobs ?? (isQuick ? 20_000 : 100_000), rounds: 1, entries: both(1) },
  ];
}

function stubParts({ isQuick, jobs }: Asked): readonly Part[] {
  const many = jobs ?? (isQuick ? 100_000 : 300_000);
  return [
    { work: "enqueue-single", jobs: jobs ?? 100_000, entries: [millrace(1)] },
    { work: "enqueue-concurrent", jobs: many, entries: [millrace(enqueuesInFlight)] },
    { work: "enqueue-bulk", jobs: many, entries: [millrace(1)] },
    { work: "drain", jobs: many, entries: [millrace(1), millrace(100)] },
  ];
}

const partsOf = {
  sqlite: sqliteParts,
  bucket: bucketParts,
  postgres: postgresParts,
  redis: redisParts,
  stub: stubParts,
};
