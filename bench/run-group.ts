/**
 * Runs one group: its entries in turn, round by round, each in fresh processes on a fresh file, and the median of the rounds as the
 * result. A drain is counted only if the store itself knows of every job that was counted.
 */
import type { Asked } from "./command-line.ts";
import { backlogJobs, medianFigures } from "./figures.ts";
import type { Figures, Result } from "./figures.ts";
import { jobsToDrain, rateOf, warmUpJobs } from "./marks.ts";
import type { Measurement } from "./measurement.ts";
import type { Entry, Group } from "./plan.ts";
import { drainInProcesses, measureInProcess } from "./processes.ts";
import type { ScratchFiles } from "./scratch-files.ts";
import { versionOf } from "./versions.ts";

export interface RunOptions {
  readonly asked: Asked;
  readonly files: ScratchFiles;
  readonly progress: (line: string) => void;
}

interface Measured {
  readonly figures: Figures;
  readonly durability: string;
}

export async function runGroup(group: Group, options: RunOptions): Promise<readonly Result[]> {
  const filled = await fillFiles(group, options);
  const rounds: Measured[][] = group.entries.map(() => []);
  const measureOne = async (entry: Entry, index: number, round: number): Promise<void> => {
    const measured = await measureEntry(group, entry, filled, options);
    rounds[index]?.push(measured);
    options.progress(`${describe(group, entry)}, round ${round}: ${show(measured.figures)}`);
  };
  for (let round = 1; round <= group.rounds; round++) {
    // Counting calls disturbs nobody, so idle workers may sit side by side.
    if (group.work === "idle")
      await Promise.all(group.entries.map((entry, index) => measureOne(entry, index, round)));
    else for (const [index, entry] of group.entries.entries()) await measureOne(entry, index, round);
  }
  for (const file of filled.values()) await options.files.remove(file);
  return group.entries.map((entry, index) => {
    const measured = rounds[index] ?? [];
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
    };
  });
}

/** All before the first round: a long fill between two entries would tear apart what is compared. */
async function fillFiles(group: Group, { asked, files, progress }: RunOptions): Promise<Map<string, string>> {
  const filled = new Map<string, string>();
  if (group.work !== "drain" || group.store === "stub") return filled;
  const jobs = jobsToDrain(group.jobs);
  for (const entry of group.entries) {
    const key = fillKey(entry);
    if (filled.has(key)) continue;
    progress(`drain: filling a file for ${key}`);
    const measurement = measurementOf(group, entry, asked, files.fresh());
    await measureInProcess({ ...measurement, work: "fill", jobs }, null);
    filled.set(key, measurement.file);
  }
  return filled;
}

function fillKey({ system, backlog }: Entry): string {
  return `${system}, ${backlog ?? "otherwise empty"}`;
}

async function measureEntry(
  group: Group,
  entry: Entry,
  filled: ReadonlyMap<string, string>,
  { asked, files }: RunOptions,
): Promise<Measured> {
  const source = filled.get(fillKey(entry));
  const file = source === undefined ? files.fresh() : await files.copyOf(source);
  const measurement = measurementOf(group, entry, asked, file);
  try {
    if (group.work === "drain") return await drain(measurement, entry, asked);
    const outcome = await measureInProcess(measurement, asked.profileFolder);
    if (outcome.kind === "figures") return outcome;
    throw new Error(`A measurement answered ${outcome.kind}.`);
  } finally {
    await files.remove(file);
  }
}

function measurementOf(group: Group, entry: Entry, asked: Asked, file: string): Measurement {
  const { system, concurrency, backlog } = entry;
  const { work, store, jobs } = group;
  const idleSeconds = asked.isQuick ? 10 : 20;
  return { work, system, store, file, concurrency, jobs, backlog, executor: asked.executor, idleSeconds };
}

async function drain(measurement: Measurement, { processes }: Entry, asked: Asked): Promise<Measured> {
  const { profileFolder } = asked;
  const jobs = jobsToDrain(measurement.jobs);
  const outcomes = await drainInProcesses(measurement, { processes, jobs, profileFolder });
  const parts = outcomes.filter((outcome) => outcome.kind === "drained");
  const total = parts.reduce((sum, part) => sum + part.total, 0);
  const before = measurement.backlog === "1000000 finished" ? backlogJobs : 0;
  const inStore = Math.max(...parts.map((part) => part.inStore)) - before;
  if (total < jobs || inStore < total)
    throw new Error(`Drained ${total} of ${jobs} jobs, but the store knows of ${inStore}.`);
  const rate = rateOf(
    parts.flatMap((part) => part.marks),
    warmUpJobs(measurement.jobs),
  );
  return { figures: { rate }, durability: parts[0]?.durability ?? "unknown" };
}

function describe({ work }: Group, { system, concurrency, processes, backlog }: Entry): string {
  return [
    `${work} ${system}`,
    ...(concurrency === null ? [] : [`concurrency ${concurrency}`]),
    ...(processes === 1 ? [] : [`${processes} processes`]),
    ...(backlog === null ? [] : [backlog]),
  ].join(", ");
}

function show(figures: Figures): string {
  return "rate" in figures
    ? `${figures.rate.toFixed(figures.rate < 100 ? 2 : 0)}/s`
    : `p50 ${figures.p50Ms.toFixed(3)} ms, p99 ${figures.p99Ms.toFixed(3)} ms`;
}
