/**
 * Reading a store to the end page by page, and bringing answers into a form that two stores can be compared by:
 * cursors, the number of rows looked at and the order of state counts are a store's own business.
 */
import { jobStates } from "../../src/model/job/job-state.ts";
import type { Clock, JobFilter, JournalAnswer, JournalRead } from "../../src/store/operations.ts";
import type { PruneRequest } from "../../src/store/upkeep.ts";
import type { Doc, DueJob, Entry, FeedRecord, JobRecord, StateCount } from "../../src/store/records.ts";
import type { Store } from "../../src/store/store.ts";

const pagesMax = 10_000;

async function walk<Item, Cursor>(
  first: Cursor,
  read: (cursor: Cursor) => Promise<{ items: readonly Item[]; next: Cursor | null }>,
): Promise<Item[]> {
  const all: Item[] = [];
  let cursor: Cursor = first;
  for (let page = 0; page < pagesMax; page++) {
    const { items, next } = await read(cursor);
    all.push(...items);
    if (next === null) return all;
    cursor = next;
  }
  throw new Error("the walk does not end");
}

export function findAll(
  store: Store,
  filter: JobFilter = {},
  max = 100,
  scanMax = 10_000,
): Promise<JobRecord[]> {
  return walk<JobRecord, string | null>(null, async (cursor) => {
    const page = await store.findJobs({ filter, max, scanMax, cursor });
    if (page.jobs.length > max || page.scanned > scanMax)
      throw new Error("the page is larger than it may be");
    return { items: page.jobs, next: page.cursor };
  });
}

export function readAllDue(store: Store, clock: Clock, max = 100): Promise<DueJob[]> {
  return walk<DueJob, string | null>(null, async (cursor) => {
    const page = await store.readDue({ clock, max, cursor });
    if (page.jobs.length > max) throw new Error("the page is larger than it may be");
    return { items: page.jobs, next: page.cursor };
  });
}

export function readAllDueDocs(store: Store, max = 2): Promise<Doc[]> {
  return walk<Doc, string | null>(null, async (cursor) => {
    const page = await store.readDueDocs({ max, cursor });
    if (page.docs.length > max) throw new Error("the page is larger than it may be");
    return { items: page.docs, next: page.cursor };
  });
}

export function readAllDocs(store: Store, kind: string, prefix: string, max = 100): Promise<Doc[]> {
  return walk<Doc, string | null>(null, async (after) => {
    const page = await store.readDocs({ kind, prefix, after, max });
    if (page.docs.length > max) throw new Error("the page is larger than it may be");
    return { items: page.docs, next: page.cursor };
  });
}

/** Of all partitions, one after the other. */
export async function readWholeFeed(store: Store, max = 100): Promise<FeedRecord[]> {
  const all: FeedRecord[] = [];
  for (let partition = 0; partition < (store.partitions ?? 1); partition++) {
    const records = await walk(0, async (after) => {
      const page = await store.readFeed({ partition, after, max });
      return { items: page.records.map(sortEvents), next: page.records.length === 0 ? null : page.cursor };
    });
    all.push(...records);
  }
  return all;
}

/** Inside one record the order between jobs is free, the order inside a job is rev. */
export function sortEvents(record: FeedRecord): FeedRecord {
  const ofJob = Map.groupBy(record.events, ({ id }) => id);
  const ids = [...ofJob.keys()].sort((a, b) => (a < b ? -1 : 1));
  return { ...record, events: ids.flatMap((id) => ofJob.get(id) ?? []) };
}

/** From `after` on to the end, page by page. */
export async function readWholeJournal(store: Store, read: JournalRead): Promise<JournalAnswer> {
  const entries: Entry[] = [];
  for (;;) {
    const [page] = await store.readJournal([{ ...read, after: read.after + entries.length }]);
    if (page?.kind !== "ok") return page as JournalAnswer;
    if (page.entries.length > read.max) throw new Error("the page is larger than it may be");
    entries.push(...page.entries);
    if (read.after + entries.length >= page.last) return { ...page, entries };
    if (page.entries.length === 0) throw new Error(`the journal ends before ${page.last}`);
  }
}

/** @returns how many were removed in all. */
export async function pruneAll(store: Store, request: PruneRequest): Promise<number> {
  const removed = await walk<number, string | null>(null, async (cursor) => {
    const answer = await store.prune("cursor" in request ? { ...request, cursor: cursor || null } : request);
    if (answer.pruned > request.max) throw new Error("more was pruned than asked for");
    // Those without a cursor are walked by asking again.
    return { items: [answer.pruned], next: answer.more ? (answer.cursor ?? "") : null };
  });
  return removed.reduce((sum, count) => sum + count, 0);
}

/** @returns what a whole audit walk repaired, kinds that needed nothing left out. */
export async function auditAll(store: Store, max = 100): Promise<Record<string, number>> {
  const pages = await walk<Readonly<Record<string, number>>, string | null>(null, async (cursor) => {
    const { repaired, cursor: next } = await store.auditIndexes({ cursor, max });
    return { items: [repaired], next };
  });
  const totals: Record<string, number> = {};
  for (const [kind, count] of pages.flatMap((page) => Object.entries(page))) {
    if (count !== 0) totals[kind] = (totals[kind] ?? 0) + count;
  }
  return totals;
}

const stateCountKey = ({ queue, name, requires = [], gates = [], state }: StateCount): string =>
  JSON.stringify([
    queue,
    name,
    requires,
    jobStates.indexOf(state),
    gates.map(({ key, weight }) => [key, weight]),
  ]);
const byKey = (a: StateCount, b: StateCount): number => (stateCountKey(a) < stateCountKey(b) ? -1 : 1);

export const sortStateCounts = (stateCounts: readonly StateCount[]): StateCount[] =>
  [...stateCounts].sort(byKey);

/** What the state counts must be (without gates, of which a record knows nothing), counted job by job. */
export function recount(jobs: readonly JobRecord[]): StateCount[] {
  const stateCounts = new Map<string, StateCount>();
  for (const { queue, name, requires, state } of jobs) {
    const stateCount = { queue, name, ...(requires === undefined ? {} : { requires }), state, count: 1 };
    const key = stateCountKey(stateCount);
    stateCounts.set(key, { ...stateCount, count: (stateCounts.get(key)?.count ?? 0) + 1 });
  }
  return sortStateCounts([...stateCounts.values()]);
}
