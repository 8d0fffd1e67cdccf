/**
 * What doctor says of a bucket. The store itself is read from a copy, so nothing is repaired, and the
 * process that writes to the bucket is not disturbed.
 */
import { countAttempts } from "../../client/metrics/count-attempts.ts";
import { durationText } from "../../model/duration.ts";
import { openBucketObjects, openStore } from "../../open.ts";
import type { Platform } from "../../platform/platform.ts";
import type { Store } from "../../store/store.ts";
import { bucketError } from "../../stores/bucket/bucket-errors.ts";
import { makeCacheFolder } from "../../stores/bucket/copy/cache-folder.ts";
import { examineBucket } from "../../stores/bucket/restore/examine.ts";
import type { BucketCondition } from "../../stores/bucket/restore/examine.ts";
import { costOf } from "../../stores/bucket/prices.ts";
import type { BucketPrices } from "../../stores/bucket/prices.ts";
import { bytesText } from "./bytes-text.ts";
import type { Finding } from "./finding.ts";
import { formatInstant } from "../output/format-time.ts";

export interface ExaminedBucket {
  readonly condition: BucketCondition;
  /** A copy of the store as the bucket has it; null if it is not whole. */
  readonly copy: Store | null;
  close(): Promise<void>;
}

export async function openExamined(platform: Platform, url: string): Promise<ExaminedBucket> {
  const folder = makeCacheFolder(null, platform);
  const { path } = folder;
  try {
    const objects = await openBucketObjects(platform, url, { bucket: { view: true } });
    let condition: BucketCondition;
    try {
      condition = await examineBucket(objects, { path, platform });
    } finally {
      await objects.close();
    }
    const copy = condition.isWhole ? await openStore(platform, `sqlite:${path}`) : null;
    return {
      condition,
      copy:
        copy === null
          ? null
          : { ...copy, describe: async () => describedAs(await copy.describe(), condition) },
      async close() {
        await copy?.close();
        folder.remove();
      },
    };
  } catch (error) {
    folder.remove();
    throw bucketError(error, "did-not-happen");
  }
}

function describedAs(copy: Awaited<ReturnType<Store["describe"]>>, { epoch }: BucketCondition) {
  return {
    ...copy,
    kind: "bucket",
    durability: "strict" as const,
    acknowledged: "An acknowledged call has landed in the bucket.",
    epoch,
    capabilities: { transactions: false, processes: "one" as const },
    warnings: [],
  };
}

/** Far above what a writer lets come together: its checkpoints fail, or every one of its lives is short. */
const recordsMax = 20_000;
const objectsShown = 5;

export function bucketFindings(condition: BucketCondition): readonly Finding[] {
  const { broken, log, orphans, conditions, deletionRules, writer } = condition;
  const found: Finding[] = broken.slice(0, objectsShown).map(({ object, problem }) => ({
    check: "objects",
    problem: `The object ${object} is damaged or missing: ${problem}.`,
    advice: object.startsWith("log/")
      ? `Stop what writes, then millrace restore --until ${Number(object.slice(4)) - 1} --to sqlite:./copy.db shows what was there before it.`
      : "An older checkpoint and the log give the same store: millrace restore --to sqlite:./copy.db tries it, millrace restore --until with the last record of --list makes it so.",
  }));
  if (broken.length > objectsShown)
    found.push({
      check: "objects",
      problem: `${broken.length - objectsShown} more objects are damaged or missing.`,
      advice: "millrace doctor --json names all of them.",
    });
  if (conditions === "ignored")
    found.push({
      check: "conditions",
      problem:
        "The object storage ignores the condition of a put-if-absent, so it keeps no second writer out.",
      advice: "Move the store to one with conditional writes before anything is lost.",
    });
  if (log.records > recordsMax)
    found.push({
      check: "log",
      problem: `${log.records} records lie after the last checkpoint, and each opening reads them all.`,
      advice:
        "Look at the warnings of the process that writes: its checkpoints fail. Its next good one ends this.",
    });
  if (orphans.length > 0)
    found.push({
      check: "orphans",
      problem: `${orphans.length} ${orphans.length === 1 ? "chunk is" : "chunks are"} named by no checkpoint, and a clean-up has passed them: ${orphans.slice(0, 3).join(", ")}${orphans.length > 3 ? ", ..." : ""}`,
      advice: "They cost storage only. The next clean-up takes them; if they stay, report it.",
    });
  for (const rule of deletionRules ?? [])
    found.push({
      check: "lifecycle",
      problem: `${rule}.`,
      advice:
        "Take this prefix out of the rule: Millrace removes what it does not need, and a store whose objects vanish is lost.",
    });
  if (writer.state === "silent" && writer.ageMs !== null)
    found.push({
      check: "writer",
      problem: `Process ${writer.pid} on ${writer.host} has the bucket and has been silent for ${durationText(writer.ageMs)}.`,
      advice:
        "If it is gone, start a worker: it takes over by itself. If it lives, it cannot reach the bucket.",
    });
  return found;
}

const monthMs = 30 * 86_400_000;

/** Estimates, in the currency of the prices. Null: the log is too young for an estimate. */
export interface BucketCosts {
  readonly storedPerMonth: number;
  /** For the PUTs of the log, at its pace since the last checkpoint. */
  readonly putsPerMonth: number | null;
  /** The same for a million attempts. Null also if no attempt ended meanwhile, or nobody has counted them. */
  readonly perMillionAttempts: number | null;
}

export async function readCosts(
  { log, chunks }: BucketCondition,
  prices: BucketPrices,
  copy: Store | null,
): Promise<BucketCosts> {
  const storedPerMonth = ((chunks.bytes + log.bytes) / 2 ** 30) * prices.gib;
  if (log.spanMs < 60_000) return { storedPerMonth, putsPerMonth: null, perMillionAttempts: null };
  const perMs = (log.records / log.spanMs) * prices.put;
  const to = log.lastAt.getTime();
  const counted = copy === null ? null : await countAttempts(copy, { from: to - log.spanMs, to });
  return {
    storedPerMonth,
    putsPerMonth: perMs * monthMs,
    perMillionAttempts:
      counted === null || counted.attempts === 0 ? null : ((perMs * counted.ms) / counted.attempts) * 1e6,
  };
}

/** What the bucket is, a line for each part. */
export function bucketLines(
  condition: BucketCondition,
  prices: BucketPrices,
  costs: BucketCosts,
): readonly string[] {
  const { newestMark, log, chunks, requests, kept } = condition;
  const mark =
    newestMark === null
      ? "no checkpoint yet"
      : `checkpoint at record ${newestMark.record} (${formatInstant(newestMark.at)}), ${chunks.count} chunks, ${bytesText(chunks.bytes)}`;
  return [
    `bucket    ${mark}, ${condition.marks} in all`,
    `log       ${log.records} records, ${bytesText(log.bytes)} after it, up to record ${log.last}`,
    `writer    ${writerText(condition)}`,
    `rules     ${rulesText(condition)}`,
    `cost      ${costText(condition, costs)}`,
    `requests  doctor has made ${requests.get} GET, ${requests.list} LIST and ${requests.put} PUT, for about ${costOf(requests, prices).toPrecision(2)}`,
    ...kept.map((prefix) => `kept      ${prefix} from a restore; delete it when nobody needs it`),
  ];
}

function writerText({ writer: { state, host, pid, ageMs } }: BucketCondition): string {
  if (ageMs === null) return "not known, because not all of the log could be read; a process may write to it";
  const who =
    state === "none"
      ? "no process writes to it"
      : `process ${pid} on ${host} ${state === "writes" ? "writes to it" : "is silent"}`;
  return `${who}; the last record is ${durationText(ageMs)} old`;
}

/** Rules that cannot be read are no finding: doctor would fail for good on a storage that does not show them. */
function rulesText({ saysRules, deletionRules }: BucketCondition): string {
  const byHand = "check by hand that no lifecycle rule deletes objects of this store";
  if (!saysRules) return `this provider does not say: ${byHand}`;
  if (deletionRules === null)
    return `not readable (a permission is missing, or the storage does not say): ${byHand}`;
  return `${deletionRules.length} that delete objects of this store`;
}

function costText({ log }: BucketCondition, costs: BucketCosts): string {
  const { storedPerMonth, putsPerMonth, perMillionAttempts } = costs;
  const keeping = `${storedPerMonth.toPrecision(2)} a month for what is stored`;
  if (putsPerMonth === null) return `${keeping}; the log is too young for an estimate`;
  const perMillion =
    perMillionAttempts === null ? "" : `, ${perMillionAttempts.toPrecision(2)} for a million attempts`;
  return `${keeping}; PUTs of the log at the pace of its last ${durationText(log.spanMs)}: ${putsPerMonth.toPrecision(2)} a month${perMillion}`;
}
