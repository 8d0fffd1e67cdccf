/**
 * Reading over partitions: pages of jobs, documents and rung clocks, put together from each partition's own. A cursor
 * names where each partition stopped, so nothing is missed and nothing comes twice.
 *
 *  jobs        one position per partition, joined by dots: the seq to go on below, or empty before the first page,
 *              or "-" at the end
 *  documents   the last id, as in one partition
 *  clocks      partition : its own cursor; one partition after the other
 */
import { MillraceError } from "../../model/error.ts";
import type {
  FindAnswer,
  FindRequest,
  ReadDocsAnswer,
  ReadDocsRequest,
  ReadDueAnswer,
  ReadDueRequest,
} from "../operations.ts";
import type { Route } from "../../model/route.ts";
import type { Doc, DueJob, JobRecord, Tally } from "../records.ts";
import { reach } from "./partition.ts";
import type { Partition, PartitionedCalls } from "./partition.ts";

const ended = "-";

/**
 * Jobs by the time of their creation, newest first. Where the scan of one partition stops early, only the jobs inside a
 * page are in that order.
 */
export async function findJobs(
  { partitions }: PartitionedCalls,
  { filter, max, scanMax, cursor }: FindRequest,
): Promise<FindAnswer> {
  const positions = cursor === null ? partitions.map(() => "") : cursor.split(".");
  if (positions.length !== partitions.length)
    throw new MillraceError("invalid-option", "The cursor is not one of this store.");
  const live = partitions.filter(({ number }) => positions[number] !== ended);
  const asked = live.slice(0, Math.max(1, Math.min(live.length, scanMax)));
  const share = Math.floor(scanMax / asked.length);
  const pages = await Promise.all(
    asked.map(({ number, store }) => {
      const position = positions[number] as string;
      return store.findJobs({ filter, max, scanMax: share, cursor: position === "" ? null : position });
    }),
  );
  const found = pages.flatMap((page, index) => page.jobs.map((job) => ({ job, index })));
  const given = found
    .sort((one, other) => byAge(one.job, other.job) || one.index - other.index)
    .slice(0, max);
  for (const [index, { number }] of asked.entries()) {
    const page = pages[index] as FindAnswer;
    const own = given.filter((each) => each.index === index);
    if (own.length === page.jobs.length) positions[number] = page.cursor ?? ended;
    else if (own.length > 0) positions[number] = String(own.at(-1)?.job.seq);
  }
  return {
    jobs: given.map(({ job }) => job),
    cursor: positions.every((position) => position === ended) ? null : positions.join("."),
    scanned: pages.reduce((sum, page) => sum + page.scanned, 0),
  };
}

function byAge(one: JobRecord, other: JobRecord): number {
  return other.createdAt - one.createdAt || other.seq - one.seq;
}

export async function readDocs(
  { partitions }: PartitionedCalls,
  request: ReadDocsRequest,
  ofName: (id: string) => number,
): Promise<ReadDocsAnswer> {
  if ("ids" in request) {
    const byPartition = Map.groupBy(new Set(request.ids), ofName);
    const pages = await Promise.all(
      [...byPartition].map(([number, ids]) =>
        (partitions[number] as Partition).store.readDocs({ kind: request.kind, ids }),
      ),
    );
    return { docs: pages.flatMap(({ docs }) => docs).sort(byId), cursor: null };
  }
  const pages = await Promise.all(partitions.map(({ store }) => store.readDocs(request)));
  const docs = pages
    .flatMap((page) => page.docs)
    .sort(byId)
    .slice(0, request.max);
  const given = new Set(docs);
  const isOver = pages.every((page) => page.cursor === null && page.docs.every((doc) => given.has(doc)));
  return { docs, cursor: isOver ? null : (docs.at(-1)?.id ?? request.after) };
}

function byId(one: Doc, other: Doc): number {
  return byteOrder(one.id, other.id);
}

/**
 * The order of UTF-8 bytes, which is that of code points: characters above the first 65,536 come last, surrogates or
 * not.
 */
function byteOrder(one: string, other: string): number {
  for (let at = 0; at < one.length && at < other.length; at++) {
    const left = one.charCodeAt(at);
    const right = other.charCodeAt(at);
    if (left === right) continue;
    const isLeftHigh = isPaired(one, at);
    return isLeftHigh === isPaired(other, at) ? left - right : isLeftHigh ? 1 : -1;
  }
  return one.length - other.length;
}

/** Whether the code unit is half of a character above the first 65,536. */
function isPaired(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  const isHalf = (other: number, from: number): boolean => other >= from && other < from + 0x400;
  if (isHalf(unit, 0xd800)) return isHalf(text.charCodeAt(at + 1), 0xdc00);
  return isHalf(unit, 0xdc00) && isHalf(text.charCodeAt(at - 1), 0xd800);
}

/** Jobs whose clock has rung. Only partitions in which a clock may have rung are asked. */
export async function readDue(
  calls: PartitionedCalls,
  { clock, max, cursor }: ReadDueRequest,
): Promise<Omit<ReadDueAnswer, "nextInMs">> {
  const at = cursor === null ? 0 : Number(cursor.slice(0, cursor.indexOf(":")));
  const jobs: DueJob[] = [];
  const failures: unknown[] = [];
  let now = 0;
  for (const partition of calls.partitions.slice(at)) {
    const isFirst = partition.number === at;
    const rest = isFirst && cursor !== null ? cursor.slice(cursor.indexOf(":") + 1) : "";
    const { outlook } = partition;
    const nowMs = calls.nowMs();
    const isSilent = calls.isWatched() && !outlook.mayHaveRung(nowMs);
    const isAnswerNeeded = now === 0 && partition.number === calls.partitions.length - 1;
    if ((isSilent || outlook.isAway(nowMs)) && rest === "" && !isAnswerNeeded) continue;
    const news = outlook.news;
    const page = await reach(calls, partition, failures, (store) =>
      store.readDue({ clock, max: max - jobs.length, cursor: rest === "" ? null : rest }),
    );
    if (page === null) continue;
    outlook.sawClock(page.nextInMs, nowMs, news);
    now = Math.max(now, page.now);
    jobs.push(...page.jobs);
    if (page.cursor !== null) return { jobs, cursor: `${partition.number}:${page.cursor}`, now };
    if (jobs.length === max && partition.number + 1 < calls.partitions.length)
      return { jobs, cursor: `${partition.number + 1}:`, now };
  }
  if (now === 0) throw failures[0];
  return { jobs, cursor: null, now };
}

export function addTallies(tallies: readonly (readonly Tally[])[]): Tally[] {
  const sums = new Map<string, Tally>();
  for (const tally of tallies.flat()) {
    const { queue, name, state, count } = tally;
    const key = `${state}:${queue.length}:${queue}${name}`;
    sums.set(key, { ...tally, count: count + (sums.get(key)?.count ?? 0) });
  }
  return [...sums.values()];
}

/** A route has the same number in every partition, so that one partition's word for it is enough. */
export function joinRoutes(lists: readonly (readonly Route[])[]): Route[] {
  const routes = new Map(lists.flat().map((route) => [route.number, route]));
  return [...routes.values()].sort((one, other) => one.number - other.number);
}
