/**
 * Runs one group: its entries in turn, round by round, each in fresh processes on a fresh file, and the median of the
 * rounds as the result. A drain is counted only if the store itself knows of every job that was counted.
 */
import type { Asked } from "./command-line.ts";
import { jobsBeside, medianFigures, modeNotes } from "./figures.ts";
import type { Figures, Mode, Result } from "./figures.ts";
import { waitMs } from "./measure/clock.ts";
import { attemptsOf, isDrain, jobKindOf } from "./measure/job-kind.ts";
import { measureCallsAcross } from "./measure/call-across.ts";
import { measureLatencyAcross } from "./measure/latency-across.ts";
import { jobsToDrain, rateOf, warmUpJobs } from "./measure/marks.ts";
import { perJob } from "./measure/measurement.ts";
import type { Measurement } from "./measure/measurement.ts";
import type { Entry, Group } from "./plan.ts";
import { drainInProcesses, measureInProcess, startPart } from "./measure/processes.ts";
import type { Part } from "./measure/processes.ts";
import type { Scratch } from "./scratch/scratch.ts";
import { versionOf } from "./versions.ts";

export interface RunOptions {
  readonly asked: Asked;
  readonly scratch: Scratch;
  readonly progress: (line: string) => void;
}

interface Measured {
  readonly figures: Figures;
  readonly durability: string;
}

/**
 * Copying so much for every round would take longer than measuring: rounds follow each other in one place, filled up
 * before each.
 */
const uncopied = "10000000 finished";

export async function runGroup(group: Group, options: RunOptions): Promise<readonly Result[]> {
  const filled = await fillPlaces(group, options);
  const rounds: Measured[][] = group.entries.map(() => []);
  const measureOne = async (entry: Entry, index: number, round: number): Promise<void> => {
    const measured = await measureEntry(group, entry, filled, round, options);
    rounds[index]?.push(measured);
    options.progress(`${describe(group, entry)}, round ${round}: ${show(measured.figures)}`);
  };
  for (let round = 1; round <= group.rounds; round++) {
    // Counting calls disturbs nobody, so idle workers may sit side by side; large fleets come one after the other.
    const isBeside = ({ processes }: Entry): boolean => group.work === "idle" && processes === 1;
    const beside = [...group.entries.entries()].filter(([, entry]) => isBeside(entry));
    await Promise.all(beside.map(([index, entry]) => measureOne(entry, index, round)));
    for (const [index, entry] of group.entries.entries())
      if (!isBeside(entry)) await measureOne(entry, index, round);
  }
  for (const place of filled.values()) await options.scratch.remove(place);
  return group.entries.map((entry, index) => {
    const measured = rounds[index] ?? [];
    const note = modeNotes[entry.mode];
    return {
      system: entry.system,
      version: versionOf(entry.system),
      store: group.store,
      work: group.work,
      concurrency: entry.concurrency,
      processes: entry.processes,
      jobs: group.jobs,
      backlog: entry.backlog,
      durability: measured[0]?.durability ?? "unknown",
      ...medianFigures(measured.map(({ figures }) => figures)),
      ...(note === null ? {} : { note }),
    };
  });
}

/** All before the first round: a long fill between two entries would tear apart what is compared. */
async function fillPlaces(group: Group, options: RunOptions): Promise<Map<string, string>> {
  const filled = new Map<string, string>();
  if ((!isDrain(group.work) && group.work !== "reopen") || group.store === "stub") return filled;
  for (const entry of group.entries) {
    const key = fillKey(group, entry);
    if (filled.has(key)) continue;
    options.progress(`${group.work}: filling a store for ${key}`);
    const place = await options.scratch.fresh();
    await fill(measurementOf(group, entry, options.asked, place), options);
    filled.set(key, place);
  }
  return filled;
}

async function fill(measurement: Measurement, { scratch }: RunOptions): Promise<void> {
  const jobs = jobsToDrain(measurement.jobs);
  await measureInProcess({ ...measurement, work: "fill", jobs }, null);
  await scratch.filled(measurement.place);
}

/** Jobs carry with them whether they are kept and what is special about them, so what differs is filled apart. */
function fillKey({ work }: Group, { system, backlog, mode }: Entry): string {
  const history = mode === "no-history" ? ", no history" : "";
  const traced = mode === "sdk" ? "traced " : "";
  return `${system}, ${traced}${jobKindOf(work, mode)} jobs, ${backlog ?? "otherwise empty"}${history}`;
}

const firstLeadMs = 2000;

async function measureEntry(
  group: Group,
  entry: Entry,
  filled: ReadonlyMap<string, string>,
  round: number,
  options: RunOptions,
  leadMs = firstLeadMs,
): Promise<Measured> {
  const { asked, scratch } = options;
  const source = filled.get(fillKey(group, entry));
  if (source !== undefined && entry.backlog === uncopied) {
    const measurement = measurementOf(group, entry, asked, source);
    if (round > 1) await fill({ ...measurement, backlog: null }, options);
    return drain(measurement, entry, (round - 1) * jobsToDrain(group.jobs), options);
  }
  const place = source === undefined ? await scratch.fresh() : await scratch.copyOf(source);
  const measurement = { ...measurementOf(group, entry, asked, place), leadMs };
  try {
    if (isDrain(group.work)) return await drain(measurement, entry, 0, options);
    if (group.work === "footprint") return await weigh(measurement, options);
    if ((group.work === "latency" || group.work === "permit") && entry.processes === 2)
      return { figures: await measureLatencyAcross(measurement, asked.profileFolder), durability: "strict" };
    if (group.work === "idle" && entry.processes > 1)
      return await idleInProcesses(measurement, entry.processes, asked.profileFolder);
    const measureIt = group.work === "call" ? measureCallsAcross : measureInProcess;
    const outcome = await measureIt(measurement, asked.profileFolder);
    if (outcome.kind === "figures") return outcome;
    if (outcome.kind === "late") return await measureEntry(group, entry, filled, round, options, 4 * leadMs);
    throw new Error(`A measurement answered ${outcome.kind}.`);
  } finally {
    await scratch.remove(place);
  }
}

/**
 * The calls of all processes together. They begin to count at once: what a start costs belongs to nobody's idle time.
 */
async function idleInProcesses(
  measurement: Measurement,
  processes: number,
  profileFolder: string | null,
): Promise<Measured> {
  const parts = Array.from({ length: processes }, () => startPart(measurement, profileFolder, () => {}));
  const outcomes = Promise.all(parts.map((part) => part.outcome));
  await Promise.race([outcomes, Promise.all(parts.map((part) => part.ready))]);
  for (const part of parts) part.say("go");
  const figures = (await outcomes).flatMap((outcome) => (outcome.kind === "figures" ? [outcome] : []));
  const rate = figures.reduce((sum, each) => sum + ("rate" in each.figures ? each.figures.rate : 0), 0);
  return { figures: { rate }, durability: figures[0]?.durability ?? "unknown" };
}

function measurementOf(group: Group, entry: Entry, asked: Asked, place: string): Measurement {
  const { system, mode, concurrency, backlog } = entry;
  const { work, store, jobs } = group;
  // A bucket that is idle is asked every ten seconds.
  const idleSeconds = store === "bucket" ? 60 : asked.isQuick ? 10 : 20;
  const { executor } = asked;
  const jobKind = jobKindOf(work, mode);
  const isFleet = work === "idle" && entry.processes > 1;
  const what = { work, system, mode, jobKind, store, place, concurrency, jobs, backlog };
  return { ...what, executor, idleSeconds, isFleet, leadMs: firstLeadMs };
}

/** Buffers of the filling process are gone a moment after it. */
const settleDownMs = 200;

async function weigh(measurement: Measurement, { asked, scratch }: RunOptions): Promise<Measured> {
  const before = await scratch.memoryBytes();
  await measureInProcess(measurement, asked.profileFolder);
  await waitMs(settleDownMs);
  const bytesPerJob = ((await scratch.memoryBytes()) - before) / measurement.jobs;
  return { figures: { bytesPerJob }, durability: "relaxed" };
}

/** `earlier`: jobs of earlier rounds that are finished in the same place. */
async function drain(
  measurement: Measurement,
  { processes, mode }: Entry,
  earlier: number,
  { asked, scratch }: RunOptions,
): Promise<Measured> {
  const { profileFolder } = asked;
  const attempts = attemptsOf(measurement.jobKind);
  const ends = jobsToDrain(measurement.jobs) * attempts;
  const reader = mode === "reader-open" ? await scratch.holdReader(measurement.place) : null;
  const listeners = await startListeners(measurement, listenersOf[mode] ?? 0);
  const outcomes = await drainInProcesses(measurement, { processes, ends, profileFolder });
  for (const listener of listeners) listener.say("stop");
  await Promise.all(listeners.map(({ outcome }) => outcome));
  await reader?.release();
  const parts = outcomes.filter((outcome) => outcome.kind === "drained");
  const total = parts.reduce((sum, part) => sum + part.total, 0);
  const before = jobsBeside(measurement.backlog).finished + earlier;
  const inStore = Math.max(...parts.map((part) => part.inStore)) - before;
  if (total < ends || inStore * attempts < total)
    throw new Error(`Ended ${total} of ${ends} attempts, but the store knows of ${inStore} finished jobs.`);
  const endsPerSecond = rateOf(
    parts.flatMap((part) => part.marks),
    warmUpJobs(measurement.jobs),
  );
  const rate = endsPerSecond / attempts;
  return {
    figures: { rate, ...perJob(parts[0]?.costs ?? null, total / attempts) },
    durability: parts[0]?.durability ?? "unknown",
  };
}

const listenersOf: Partial<Record<Mode, number>> = {
  ...{ "1-listener": 1, "10-in-one": 1, "10-listeners": 10, "10-alarms": 10 },
};

async function startListeners(measurement: Measurement, count: number): Promise<readonly Part[]> {
  const listeners = Array.from({ length: count }, () =>
    startPart({ ...measurement, work: "listener" }, null, () => {}),
  );
  await Promise.all(listeners.map(({ ready, outcome }) => Promise.race([ready, outcome])));
  return listeners;
}

function describe({ work }: Group, { system, mode, concurrency, processes, backlog }: Entry): string {
  return [
    `${work} ${system}`,
    ...(mode === "plain" ? [] : [mode]),
    ...(concurrency === null ? [] : [`concurrency ${concurrency}`]),
    ...(processes === 1 ? [] : [`${processes} processes`]),
    ...(backlog === null ? [] : [backlog]),
  ].join(", ");
}

function show(figures: Figures): string {
  if ("bytesPerJob" in figures) return `${figures.bytesPerJob.toFixed(0)} bytes per job`;
  return "rate" in figures
    ? `${figures.rate.toFixed(figures.rate < 100 ? 2 : 0)}/s`
    : `p50 ${figures.p50Ms.toFixed(3)} ms, p99 ${figures.p99Ms.toFixed(3)} ms`;
}
