/** What the bench prints: JSON lines for programs, an aligned table with ratios for people. */
import { defaultPrices } from "../src/stores/bucket/prices.ts";
import { modeNotes } from "./figures.ts";
import type { Result, Work } from "./figures.ts";
import { isDrain } from "./measure/job-kind.ts";
import type { MemoryReport } from "./works/memory.ts";

export function resultLine(result: Result): string {
  const { rate, p50Ms, p99Ms, bytesPerJob, puts, putBytes } = result;
  return JSON.stringify({
    ...result,
    ...(rate === undefined ? {} : { rate: rounded(rate) }),
    ...(p50Ms === undefined ? {} : { p50Ms: rounded(p50Ms) }),
    ...(p99Ms === undefined ? {} : { p99Ms: rounded(p99Ms) }),
    ...(bytesPerJob === undefined ? {} : { bytesPerJob: rounded(bytesPerJob) }),
    ...(puts === undefined ? {} : { puts: Number(puts.toPrecision(3)) }),
    ...(putBytes === undefined ? {} : { putBytes: rounded(putBytes) }),
  });
}

function rounded(value: number): number {
  return Number(value.toFixed(value < 100 ? 3 : 0));
}

const heading = [
  "work",
  "backlog",
  "system",
  "concurrency",
  "processes",
  "durability",
  "jobs",
  "rate/s",
  "us/job",
  "p50 ms",
  "p99 ms",
  "bytes/job",
  "ratio",
  "to plain",
];
const firstNumberColumn = 6;

export function resultTable(results: readonly Result[]): string {
  const isBucket = results.some(({ store }) => store === "bucket");
  return aligned([
    isBucket ? [...heading, "puts", "put bytes", "$/million"] : heading,
    ...results.map((result) => rowOf(result, results)),
  ]);
}

function rowOf(result: Result, all: readonly Result[]): readonly string[] {
  const { rate, p50Ms, p99Ms } = result;
  const isIdle = result.work === "idle" || result.work === "schedules-idle" || result.work === "suspended";
  return [
    result.work,
    result.backlog ?? "-",
    `${result.system} ${result.version}${result.note === undefined ? "" : `, ${result.note}`}`,
    String(result.concurrency ?? "-"),
    String(result.processes),
    result.durability,
    result.jobs === 0 ? "-" : whole(result.jobs),
    rate === undefined ? "-" : rate < 100 ? rate.toFixed(2) : whole(rate),
    rate === undefined || isIdle ? "-" : (1e6 / rate).toFixed(2),
    p50Ms?.toFixed(3) ?? "-",
    p99Ms?.toFixed(3) ?? "-",
    result.bytesPerJob?.toFixed(0) ?? "-",
    ratioToPeer(result, all),
    ratioToPlain(result, all),
    // Only a bucket has these.
    ...(result.store === "bucket"
      ? [
          result.puts?.toPrecision(3) ?? "-",
          result.putBytes?.toFixed(0) ?? "-",
          result.puts === undefined || isIdle ? "-" : (result.puts * 1e6 * defaultPrices.put).toPrecision(2),
        ]
      : []),
  ];
}

/** Above 1 is better than the peer: more per second, less time (p50, p99) or less memory. For idle, fewer calls. */
function ratioToPeer(result: Result, all: readonly Result[]): string {
  // No peer is measured beside an open reader.
  if (result.system !== "millrace" || result.note === modeNotes["reader-open"]) return "-";
  const peers = peersOf(result, all);
  if (peers.length === 0) return "-";
  if (result.p50Ms !== undefined && result.p99Ms !== undefined) {
    const p50 = Math.min(...peers.map(({ p50Ms }) => p50Ms ?? 0)) / result.p50Ms;
    const p99 = Math.min(...peers.map(({ p99Ms }) => p99Ms ?? 0)) / result.p99Ms;
    return `${p50.toFixed(2)}, ${p99.toFixed(2)}`;
  }
  if (result.bytesPerJob !== undefined)
    return (Math.min(...peers.map(({ bytesPerJob }) => bytesPerJob ?? 0)) / result.bytesPerJob).toFixed(2);
  const rate = result.rate ?? 0;
  const rates = peers.map((peer) => peer.rate ?? 0);
  return (result.work === "idle" ? Math.min(...rates) / rate : rate / Math.max(...rates)).toFixed(2);
}

/** Where every peer has a setting for it, like is compared with like: the same concurrency, as many processes. */
function peersOf(result: Result, all: readonly Result[]): readonly Result[] {
  const peers = all.filter(
    ({ system, work, backlog, note }) =>
      system !== "millrace" &&
      work === result.work &&
      backlog === result.backlog &&
      conditionOf(note) === conditionOf(result.note),
  );
  if (peers.some(({ concurrency }) => concurrency === null)) return peers;
  return peers.filter(
    ({ concurrency, processes }) => concurrency === result.concurrency && processes === result.processes,
  );
}

/** What a drain is compared with, where that is not the drain of plain jobs. */
const basisNotes: Partial<Record<Work, string>> = { metrics: modeNotes["no-metrics"] };
const conditions: readonly (string | undefined)[] = [
  modeNotes.rested,
  modeNotes["plain-jobs"],
  modeNotes.busy,
];

/** Notes that say how a peer was run do not count: there its fastest way is the one to compare with. */
function conditionOf(note: string | undefined): string | null {
  return conditions.includes(note) ? (note ?? null) : null;
}

/**
 * How a drain of special jobs compares with that of plain ones, and a drain or delays beside many other jobs or under
 * a condition with the same on an otherwise empty store. Above 1 is better.
 */
function ratioToPlain(result: Result, all: readonly Result[]): string {
  const { rate, p50Ms, p99Ms } = result;
  const isSpecial = isDrain(result.work) && result.work !== "drain";
  const plainNote = isSpecial ? (basisNotes[result.work] ?? modeNotes["plain-jobs"]) : undefined;
  if (result.backlog === null && (result.note === plainNote || rate === undefined)) return "-";
  const plain = all.find(
    ({ system, work, backlog, note, concurrency, processes }) =>
      system === result.system &&
      work === result.work &&
      backlog === null &&
      note === plainNote &&
      concurrency === result.concurrency &&
      processes === result.processes,
  );
  if (plain?.p50Ms !== undefined && plain.p99Ms !== undefined && p50Ms !== undefined && p99Ms !== undefined)
    return `${(plain.p50Ms / p50Ms).toFixed(2)}, ${(plain.p99Ms / p99Ms).toFixed(2)}`;
  return plain?.rate === undefined || rate === undefined ? "-" : (rate / plain.rate).toFixed(2);
}

/** Growth below this is noise of the collector: over 200,000 jobs it adds up to 2 MB. */
const flatBytesPerJob = 10;

export function memoryTable({ jobs, samples, bytesPerJob }: MemoryReport): string {
  const rows = samples
    .filter((_, index) => index % 4 === 0)
    .map((sample) => [whole(sample.jobs), mebibytes(sample.heapBytes), mebibytes(sample.rssBytes)]);
  const verdict = bytesPerJob < flatBytesPerJob ? "flat" : "NOT flat";
  return [
    aligned([["jobs", "heap MiB", "rss MiB"], ...rows], 0),
    `memory over ${whole(jobs)} jobs in one process: ${verdict} (${bytesPerJob.toFixed(1)} bytes of heap per job).`,
  ].join("\n");
}

function mebibytes(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(1);
}

function whole(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

/** Texts to the left, numbers to the right. */
function aligned(rows: readonly (readonly string[])[], rightFrom: number = firstNumberColumn): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => {
          const width = widths[column] ?? 0;
          return column >= rightFrom ? cell.padStart(width) : cell.padEnd(width);
        })
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
