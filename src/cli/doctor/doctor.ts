/**
 * `millrace doctor`: checks a store as a whole: its settings and clock, then a full walk of the index audit (timers,
 * keys, tags, logs, state counts against the records), then jobs whose clock rang long ago and was not answered, the
 * server that the store lives on, the workers, and durable runs that none of them can go on with. Every finding says
 * what to do.
 */
import type { StoreOptions } from "../../client/millrace-options.ts";
import { readQuarantinedItems, readUnreadableItems } from "../../client/workers/quarantined.ts";
import { cancelKind, replayKind } from "../../model/flow/requested-change.ts";
import { unlessMissing } from "../../client/jobs/unless-missing.ts";
import { durationText } from "../../model/duration.ts";
import { isMillraceError } from "../../model/error.ts";
import { withoutHidden } from "../../model/routing/hidden-queue.ts";
import { openStore } from "../../open.ts";
import { isBucketUrl } from "../../stores/bucket/bucket-url.ts";
import { defaultPrices } from "../../stores/bucket/prices.ts";
import type { BucketPrices } from "../../stores/bucket/prices.ts";
import type { Platform } from "../../platform/platform.ts";
import type { Clock } from "../../store/operations.ts";
import { deferredKind } from "../../store/rules/flow/arrive.ts";
import { missingSentence } from "../../store/partitioned/missing-partition.ts";
import type { MissingPartition, Store, StoreDescription } from "../../store/store.ts";
import { wrong } from "../arguments/wrong.ts";
import { command } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { examineServer } from "./examine-server.ts";
import type { Finding } from "./finding.ts";
import { fleetFindings } from "./fleet-findings.ts";
import { runFindings } from "./run-findings.ts";
import { formatInstant } from "../output/format-time.ts";
import { existingStoreUrl } from "../store/open-store.ts";
import { packageVersion } from "../package-version.ts";
import { pricesOption } from "./prices-option.ts";

export const doctor = command({
  name: "doctor",
  summary: "check a store: settings, durability, clocks, indexes, orphans, stuck jobs, workers",
  options: { prices: pricesOption },
  async run({ terminal, platform, options: { prices }, answer, ...call }) {
    const url = await existingStoreUrl({ terminal, platform, ...call });
    if (!isBucketUrl(url) && prices !== undefined) throw wrong("--prices is for buckets");
    const bucket = isBucketUrl(url) ? await examinedBucket(platform, url, prices ?? defaultPrices) : null;
    if (bucket !== null && bucket.copy === null) {
      const { lines, findings, condition } = bucket;
      const report = {
        ok: false,
        millrace: packageVersion(),
        node: terminal.nodeVersion,
        bucket: condition,
        findings,
      };
      answer(report, [...lines, ...findingLines(findings), countText(findings)].join("\n"));
      await bucket.close();
      return 1;
    }
    const store = bucket?.copy ?? (await openAsItIs(platform, url));
    try {
      const askedAt = platform.now();
      const described = await store.describe();
      const missingAtFirst = store.missing?.() ?? [];
      const clockAheadMs = aheadMs(described.now, askedAt, platform.now());
      const { checked, repaired } = await walkIndexes(store);
      const server =
        bucket === null
          ? await examineServer(described.kind, url, platform)
          : { condition: { bucket: bucket.condition }, lines: [], findings: bucket.findings };
      const findings = [
        ...warnings(described, missingAtFirst),
        ...missingFindings(store),
        ...server.findings,
        ...clockFindings(clockAheadMs),
        ...indexFindings(repaired, bucket !== null),
        ...(await unreadableFindings(store)),
        ...(await overdueFindings(store, described.now)),
        ...(await unlessMissing(store, () => quarantineFindings(store), [])),
        ...(await unlessMissing(store, () => fleetFindings(store, described.now), [])),
        ...(await unlessMissing(store, () => runFindings(store), [])),
      ];
      const { kind, durability, acknowledged, schemaVersion, epoch, partitions, capabilities } = described;
      const report = {
        ok: findings.length === 0,
        millrace: packageVersion(),
        node: terminal.nodeVersion,
        store: {
          kind,
          durability,
          ...(acknowledged === undefined ? {} : { acknowledged }),
          schemaVersion,
          ...(partitions === undefined ? {} : { partitions }),
          epoch,
          ...capabilities,
          clockAheadMs,
        },
        ...server.condition,
        jobs: await countByState(store),
        audit: { checked, repaired },
        findings,
      };
      answer(report, () => describe(report, server.lines, bucket?.lines ?? []));
      return findings.length === 0 ? 0 : 1;
    } finally {
      await (bucket ?? store).close();
    }
  },
});

interface Report {
  readonly millrace: string;
  readonly node: string;
  readonly store: Pick<
    StoreDescription,
    "kind" | "durability" | "acknowledged" | "schemaVersion" | "epoch" | "partitions"
  > & { readonly clockAheadMs: number };
  readonly jobs: Readonly<Record<string, number>>;
  readonly audit: { readonly checked: number };
  readonly findings: readonly Finding[];
}

/** The code for it is loaded when it is needed. */
async function examinedBucket(platform: Platform, url: string, prices: BucketPrices) {
  const { bucketFindings, bucketLines, openExamined, readCosts } = await import("./bucket-findings.ts");
  const examined = await openExamined(platform, url);
  const { condition } = examined;
  const costs = await readCosts(condition, prices, examined.copy);
  const lines = bucketLines(condition, prices, costs).map((line) => escapeText(line));
  return { ...examined, condition: { ...condition, costs }, lines, findings: bucketFindings(condition) };
}

function describe(report: Report, servers: readonly string[], bucket: readonly string[]): string {
  const { store, findings } = report;
  const jobs = Object.entries(report.jobs).map(([state, count]) => `${count} ${state}`);
  const lines = [
    `millrace  ${report.millrace} on Node.js ${report.node}`,
    `store     ${store.kind}, schema ${store.schemaVersion}, epoch ${store.epoch}, ${store.partitions === undefined ? "" : `${store.partitions} partitions, `}opened as ${store.durability}`,
    ...servers.map((line) => `server    ${escapeText(line)}`),
    ...bucket,
    `clock     ${Math.abs(store.clockAheadMs) < clockSlackMs ? "agrees with this process" : `${store.clockAheadMs} ms ahead of this process`}`,
    `indexes   ${report.audit.checked} entries checked, state counts recounted`,
    `jobs      ${jobs.length === 0 ? "none" : jobs.join(", ")}`,
  ];
  return [...lines, ...findingLines(findings), countText(findings)].join("\n");
}

function findingLines(findings: readonly Finding[]): readonly string[] {
  return findings.flatMap(({ check, problem, advice }) => [
    `FINDING   ${check}: ${escapeText(problem)}`,
    `          ${advice}`,
  ]);
}

function countText({ length }: readonly Finding[]): string {
  return length === 0 ? "no findings" : `${length} ${length === 1 ? "finding" : "findings"}`;
}

/**
 * Opens the store without asking for strict durability, so that a server whose settings cannot give it is checked too:
 * its warnings become findings.
 */
async function openAsItIs(platform: Platform, url: string): Promise<Store> {
  try {
    return await openStore(platform, url);
  } catch (error) {
    const options = lenient(error, url);
    if (options === null) throw error;
    return openStore(platform, url, options);
  }
}

function lenient(error: unknown, url: string): StoreOptions | null {
  if (isMillraceError(error, "durability-refused")) return { durability: "relaxed" };
  const isRedis = /^(redis|valkey)s?:/i.test(url);
  return isRedis && isMillraceError(error, "store-misconfigured") ? { redis: { allowEviction: true } } : null;
}

/** Without those about a missing partition, which gets a finding of its own. */
function warnings(
  { warnings: given }: StoreDescription,
  missing: readonly MissingPartition[],
): readonly Finding[] {
  const known = new Set(missing.map(missingSentence));
  return given
    .filter((problem) => !known.has(problem))
    .map((problem) => ({
      check: "settings",
      problem,
      advice: "Change the setting, or keep it knowingly.",
    }));
}

function missingFindings(store: Store): readonly Finding[] {
  return (store.missing?.() ?? []).map((each) => ({
    check: "partitions",
    problem: missingSentence(each),
    advice: "Look at the server that has this partition. All else that doctor says is about the others.",
  }));
}

const clockSlackMs = 1000;

/**
 * How far a store's clock is ahead of (or behind) this machine's. The store read its clock somewhere between question
 * and answer, so a time within those two says nothing against it.
 */
export function aheadMs(now: number, askedAt: number, answeredAt: number): number {
  return Math.max(0, now - answeredAt) + Math.min(0, now - askedAt);
}

function clockFindings(clockAheadMs: number): readonly Finding[] {
  if (Math.abs(clockAheadMs) < clockSlackMs) return [];
  const side = clockAheadMs > 0 ? "ahead of" : "behind";
  return [
    {
      check: "clock",
      problem: `The store's time is ${durationText(Math.abs(clockAheadMs))} ${side} this machine's clock.`,
      advice:
        "Set the clock of every machine that uses the store (NTP); until they agree, delays and leases end early or late.",
    },
  ];
}

const auditBatch = 1000;
const auditStepsMax = 1_000_000;

async function walkIndexes(store: Store): Promise<{ checked: number; repaired: Record<string, number> }> {
  const repaired: Record<string, number> = {};
  let checked = 0;
  let cursor: string | null = null;
  for (let step = 0; step < auditStepsMax; step++) {
    const answer: Awaited<ReturnType<Store["auditIndexes"]>> = await store.auditIndexes({
      cursor,
      max: auditBatch,
    });
    checked += answer.checked;
    for (const [kind, count] of Object.entries(answer.repaired))
      repaired[kind] = (repaired[kind] ?? 0) + count;
    cursor = answer.cursor;
    if (cursor === null) break;
  }
  return { checked, repaired };
}

const unreadableShown = 5;

/** Records that the store could not read: whatever met them went on without them. */
async function unreadableFindings(store: Store): Promise<readonly Finding[]> {
  const records = await readUnreadableItems(store);
  const count = records.length;
  if (count === 0) return [];
  const first = records
    .slice(0, unreadableShown)
    .map(({ item, ref, error }) => `${item ?? `the ref ${ref}`} (${error})`);
  const which = `${first.join(", ")}${count > first.length ? ", and others" : ""}`;
  return [
    {
      check: "records",
      problem: `${count} ${count === 1 ? "record is" : "records are"} unreadable: ${which}.`,
      advice:
        "They are in no list and no count, and do not run; millrace duties lists them. Find out who wrote there, then delete them with millrace delete ID, or millrace delete REF --unreadable.",
    },
  ];
}

function indexFindings(repaired: Readonly<Record<string, number>>, isCopy: boolean): readonly Finding[] {
  // Unreadable records have a finding of its own.
  const kinds = Object.entries(repaired).filter(([kind]) => kind !== "unreadable");
  return kinds.map(([kind, count]) => ({
    check: "indexes",
    problem: `${count} ${kind} ${count === 1 ? "entry" : "entries"} disagreed with the jobs.`,
    advice: isCopy
      ? "Only a copy was repaired: the duty audit of the process that writes repairs the store. This is a bug: please report it."
      : "Repaired just now. Unless somebody edited the file by hand this is a bug: please report it.",
  }));
}

/**
 * A job is overdue after this long: far beyond what a duty that is on needs, so that a busy store is never taken for an
 * abandoned one.
 */
const overdueMs = 60_000;
const sampleMax = 500;
const clocks: readonly Clock[] = ["lease", "attempt", "deadline", "ttl"];

/** Documents that say what is left to do about a flow, such as the end of one that was cancelled or deleted. */
const workOfFlows: ReadonlySet<string> = new Set([deferredKind, cancelKind, replayKind]);

async function overdueFindings(store: Store, now: number): Promise<readonly Finding[]> {
  const overdue = new Map<string, number>();
  for (const clock of clocks) {
    const { jobs } = await store.readDue({ clock, max: sampleMax, cursor: null });
    const count = jobs.filter(({ lateMs }) => lateMs > overdueMs).length;
    if (count > 0) overdue.set(`${clock} has ended`, count);
  }
  const { jobs } = await store.findJobs({
    filter: { states: ["scheduled"] },
    max: sampleMax,
    scanMax: sampleMax,
    cursor: null,
  });
  const unpromoted = jobs.filter(({ dueAt }) => dueAt < now - overdueMs).length;
  if (unpromoted > 0) overdue.set("due time has come", unpromoted);
  const { docs } = await store.readDueDocs({ max: sampleMax, cursor: null });
  const left = docs.filter(({ kind, dueAt }) => workOfFlows.has(kind) && (dueAt ?? now) < now - overdueMs);
  if (left.length > 0) overdue.set("work for its flow was left", left.length);
  return [...overdue].map(([what, count]) => ({
    check: "duties",
    problem: `${count}${count >= sampleMax ? " or more" : ""} ${count === 1 ? "job" : "jobs"} whose ${what} more than a minute ago ${count === 1 ? "was" : "were"} not handled.`,
    advice:
      "No process runs the duties on this store: start millrace work, or any process that calls work() or duties.start().",
  }));
}

async function quarantineFindings(store: Store): Promise<readonly Finding[]> {
  const items = await readQuarantinedItems(store);
  return items.map(({ duty, item, failures, error, until }) => ({
    check: "duties",
    problem: `The duty ${duty} failed ${failures} times${item === null ? "" : ` on ${item}`}: ${error}`,
    advice: `The item is quarantined until ${formatInstant(until)} and then tried again. Look at the job with millrace show, and at the log of the process.`,
  }));
}

async function countByState(store: Store): Promise<Readonly<Record<string, number>>> {
  const counts: Record<string, number> = {};
  for (const { state, count } of withoutHidden(await store.countJobs()))
    counts[state] = (counts[state] ?? 0) + count;
  return counts;
}
