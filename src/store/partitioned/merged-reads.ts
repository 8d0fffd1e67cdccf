/**
 * Reading over partitions: pages of jobs, documents and due clocks, merged from each partition's own. A cursor has the
 * position in each partition, so nothing is missed or repeated. A partition that is away or fails is passed over; it
 * keeps its position in the cursor and may be back on a later page.
 *
 *  jobs        one position per partition, joined by dots: the seq to go on below, or empty before the first page,
 *              or "-" at the end
 *  documents   the last id, as in one partition
 *  clocks      a list in JSON: per partition its own cursor, or null before its first page, or false at its end
 */
import { MillraceError } from "../../model/error.ts";
import { isPlacedByPrefix } from "../../model/routing/placement.ts";
import type {
  FindAnswer,
  FindRequest,
  ReadDocsAnswer,
  ReadDocsRequest,
  ReadDueAnswer,
  ReadDueDocsAnswer,
  ReadDueDocsRequest,
  ReadDueRequest,
} from "../operations.ts";
import type { Route } from "../../model/routing/route.ts";
import type { Doc, DueJob, JobRecord } from "../records.ts";
import type { Store } from "../store.ts";
import { askAll, presentOnes, reach, throwFirst } from "./partition.ts";
import type { Partition, PartitionedCalls, Reached } from "./partition.ts";

const ended = "-";

/**
 * Jobs by the time of their creation, newest first. If the scan of one partition stops early, only the jobs inside a
 * page are in that order.
 */
export async function findJobs(
  calls: PartitionedCalls,
  { filter, max, scanMax, cursor }: FindRequest,
): Promise<FindAnswer> {
  const { partitions } = calls;
  const positions = cursor === null ? partitions.map(() => "") : cursor.split(".");
  if (positions.length !== partitions.length)
    throw new MillraceError("invalid-option", "The cursor is not one of this store.");
  const isOpen = ({ number }: Partition): boolean => positions[number] !== ended;
  const open = partitions.filter(isOpen);
  const present = presentOnes(open);
  const live = present.length > 0 ? present : open;
  const asked = live.slice(0, Math.max(1, Math.min(live.length, scanMax)));
  const share = Math.floor(scanMax / asked.length);
  const find = (store: Store, { number }: Partition): Promise<FindAnswer> => {
    const position = positions[number] as string;
    return store.findJobs({ filter, max, scanMax: share, cursor: position === "" ? null : position });
  };
  const pages = await askAll(calls, "findJobs", find, asked);
  const wasPassedOver = (each: Partition): boolean =>
    isOpen(each) && each.health.trouble !== null && !pages.some(({ partition }) => partition === each);
  const missing = open.filter(wasPassedOver).map(({ number }) => number);
  const found = pages.flatMap(({ answer }, index) => answer.jobs.map((job) => ({ job, index })));
  const given = found
    .sort((one, other) => byAge(one.job, other.job) || one.index - other.index)
    .slice(0, max);
  for (const [index, { partition, answer }] of pages.entries()) {
    const own = given.filter((each) => each.index === index);
    if (own.length === answer.jobs.length) positions[partition.number] = answer.cursor ?? ended;
    else if (own.length > 0) positions[partition.number] = String(own.at(-1)?.job.seq);
  }
  // The remaining jobs lie in partitions that do not answer: a walk that waited for them would not end.
  const isOver = open.every((each) => !isOpen(each) || missing.includes(each.number));
  return {
    jobs: given.map(({ job }) => job),
    cursor: isOver ? null : positions.join("."),
    scanned: pages.reduce((sum, { answer }) => sum + answer.scanned, 0),
    ...(missing.length === 0 ? {} : { missing }),
  };
}

function byAge(one: JobRecord, other: JobRecord): number {
  return other.createdAt - one.createdAt || other.seq - one.seq;
}

/** Absence from the answer has a meaning for most callers, so a failing partition fails the call. */
export async function readDocs(
  calls: PartitionedCalls,
  request: ReadDocsRequest,
  ofName: (id: string) => number,
): Promise<ReadDocsAnswer> {
  if ("ids" in request) {
    const byPartition = Map.groupBy(new Set(request.ids), ofName);
    const pages = await Promise.all(
      [...byPartition].map(([number, ids]) =>
        (calls.partitions[number] as Partition).store.readDocs({ kind: request.kind, ids }),
      ),
    );
    return { docs: pages.flatMap(({ docs }) => docs).sort(byId), cursor: null };
  }
  if (isPlacedByPrefix(request.prefix))
    return readPlaced(calls.partitions[ofName(request.prefix)] as Partition, calls, request);
  const pages =
    request.passesOver === true
      ? (await askAll(calls, "readDocs", (store) => store.readDocs(request))).map(({ answer }) => answer)
      : await Promise.all(calls.partitions.map(({ store }) => store.readDocs(request)));
  const docs = pages
    .flatMap((page) => page.docs)
    .sort(byId)
    .slice(0, request.max);
  const given = new Set(docs);
  const isOver = pages.every((page) => page.cursor === null && page.docs.every((doc) => given.has(doc)));
  return { docs, cursor: isOver ? null : (docs.at(-1)?.id ?? request.after) };
}

/** All ids with this prefix lie in this partition. */
async function readPlaced(
  partition: Partition,
  { timeout }: PartitionedCalls,
  request: Extract<ReadDocsRequest, { prefix: string }>,
): Promise<ReadDocsAnswer> {
  if (request.passesOver !== true) return partition.store.readDocs(request);
  const reached = await reach(partition, {
    name: "readDocs",
    call: (store) => store.readDocs(request),
    timeout: timeout.long,
  });
  return reached.kind === "answered" ? reached.answer : { docs: [], cursor: null };
}

function byId(one: Doc, other: Doc): number {
  return byteOrder(one.id, other.id);
}

/** The order of UTF-8 bytes, which is that of code points: characters above the first 65,536 come last. */
export function byteOrder(one: string, other: string): number {
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

/** Jobs with a due clock. */
export async function readDue(
  calls: PartitionedCalls,
  { clock, max, cursor }: ReadDueRequest,
): Promise<Omit<ReadDueAnswer, "nextInMs">> {
  const { items: jobs, ...page } = await readRung<DueJob, ReadDueAnswer>(calls, {
    ...{ name: `readDue ${clock}`, max, cursor },
    read: (store, own) => store.readDue({ clock, ...own }),
    itemsOf: (answer) => answer.jobs,
  });
  return { jobs, ...page };
}

/** Documents that are due; in order inside a partition. */
export async function readDueDocs(
  calls: PartitionedCalls,
  { max, cursor }: ReadDueDocsRequest,
): Promise<Omit<ReadDueDocsAnswer, "nextInMs">> {
  const { items: docs, ...page } = await readRung<Doc, ReadDueDocsAnswer>(calls, {
    ...{ name: "readDueDocs", max, cursor },
    read: (store, own) => store.readDueDocs(own),
    itemsOf: (answer) => answer.docs,
  });
  return { docs, ...page };
}

interface RungAnswer {
  readonly cursor: string | null;
  readonly now: number;
  readonly serverNow?: number;
  readonly nextInMs: number | null;
}

/** The latest of some partitions' times, and the server's own if that differs. */
export function latestTimes(
  times: readonly Pick<RungAnswer, "now" | "serverNow">[],
): Pick<RungAnswer, "now" | "serverNow"> {
  const now = Math.max(0, ...times.map((each) => each.now));
  const serverNow = Math.max(0, ...times.map((each) => each.serverNow ?? each.now));
  return serverNow === now ? { now } : { now, serverNow };
}

/** The position of a walk in one partition: before its first page (null), after a page, or at its end (false). */
type RungPlace = string | null | false;

/**
 * Reads what is due. Partitions are asked at once, each for its share, so that the timeouts of unresponsive ones do not
 * add up. Only those in which a clock may be due are asked. One that does not answer is skipped for the rest of the
 * walk.
 */
async function readRung<Item, Answer extends RungAnswer>(
  calls: PartitionedCalls,
  {
    name,
    max,
    cursor,
    read,
    itemsOf,
  }: {
    readonly name: string;
    readonly max: number;
    readonly cursor: string | null;
    readonly read: (store: Store, own: { max: number; cursor: string | null }) => Promise<Answer>;
    readonly itemsOf: (answer: Answer) => readonly Item[];
  },
): Promise<{ readonly items: readonly Item[] } & Omit<RungAnswer, "nextInMs">> {
  const places = cursor === null ? calls.partitions.map(() => null) : (JSON.parse(cursor) as RungPlace[]);
  const { visits, others } = worthReading(calls, places, name);
  const asked = visits.slice(0, max);
  const share = Math.floor(max / asked.length);
  const ask = async (partition: Partition): Promise<Reached<Answer>> => {
    const { number, cache } = partition;
    const heard = cache.heard;
    const sentMs = calls.nowMs();
    const own = { max: asked.includes(partition) ? share : 1, cursor: places[number] || null };
    const page = await reach(partition, {
      ...{ name, timeout: calls.timeout.long },
      call: (store) => read(store, own),
    });
    if (page.kind === "answered") cache.sawClock(page.answer.nextInMs, sentMs, heard);
    return page;
  };
  const pages = await Promise.all(asked.map(ask));
  const items: Item[] = [];
  for (const [index, page] of pages.entries()) {
    const isAnswered = page.kind === "answered";
    if (isAnswered) items.push(...itemsOf(page.answer));
    places[(asked[index] as Partition).number] = isAnswered ? (page.answer.cursor ?? false) : false;
  }
  const reached = [...pages, ...(await shareTime(pages, others, ask))];
  const times = latestTimes(reached.flatMap((page) => (page.kind === "answered" ? [page.answer] : [])));
  if (times.now === 0) throwFirst(reached);
  // A partition that cannot be asked does not keep the walk going.
  const isOver = asked.length === visits.length && asked.every(({ number }) => places[number] === false);
  return { items, cursor: isOver ? null : JSON.stringify(places), ...times };
}

/** If no page has the store's time, another partition is asked for it: one, and then all others. */
async function shareTime<Answer>(
  pages: readonly Reached<Answer>[],
  others: readonly Partition[],
  ask: (partition: Partition) => Promise<Reached<Answer>>,
): Promise<readonly Reached<Answer>[]> {
  const isAnswered = (emitted: readonly Reached<Answer>[]): boolean =>
    emitted.some(({ kind }) => kind === "answered");
  if (isAnswered(pages)) return [];
  const first = await Promise.all(others.slice(0, 1).map(ask));
  return isAnswered(first) ? first : [...first, ...(await Promise.all(others.slice(1).map(ask)))];
}

/** The partitions to read in a walk at these positions, and others that can answer the time if these fail. */
function worthReading(
  calls: PartitionedCalls,
  places: readonly RungPlace[],
  name: string,
): { readonly visits: readonly Partition[]; readonly others: readonly Partition[] } {
  const present = presentOnes(calls.partitions).filter(({ health }) => health.mayAsk(name));
  if (present.length === 0) return { visits: calls.partitions.slice(-1), others: [] };
  const isWorth = ({ number, cache }: Partition): boolean => {
    const place = places[number];
    if (typeof place === "string") return true;
    return place === null && (!calls.isWatched() || cache.mayHaveRung(calls.nowMs()));
  };
  const others = present.filter((partition) => !isWorth(partition)).toReversed();
  return { visits: present.filter(isWorth), others };
}

/** A route has the same number in every partition, so one partition's entry is enough. */
export function joinRoutes(lists: readonly (readonly Route[])[]): Route[] {
  const routes = new Map(lists.flat().map((route) => [route.number, route]));
  return [...routes.values()].sort((one, other) => one.number - other.number);
}
