/** Reads jobs (jobs/read.sql.ts) by id, in lists, their counts and their log lines; and the feed (feed/feed.sql.ts). */
import { isTerminal, jobStates, stateCodes, stateOfCode } from "../../../model/job/job-state.ts";
import { shownRoute, countedRoute } from "../../../model/routing/route.ts";
import type { RouteContent } from "../../../model/routing/route.ts";
import type {
  FeedAnswer,
  FeedRequest,
  FindAnswer,
  FindRequest,
  LogsAnswer,
} from "../../../store/operations.ts";
import type { JobRecord, StateCount } from "../../../store/records.ts";
import { readRecord } from "../../../store/packing/packed-events.ts";
import type { PackedFeed } from "../../../store/watch/watch.ts";
import { addStateCounts } from "../../../store/state-counts.ts";
import { readRows } from "../upkeep/unreadable.ts";
import { callRead } from "../functions/call.ts";
import type { Calls } from "../functions/call.ts";
import type { Row } from "../connection/database.ts";
import { listText } from "../functions/columns.ts";
import type { Routes } from "./routes.ts";
import { recordFields } from "./read.sql.ts";
import { numberList, packNullable, packText, unpackText } from "../functions/packed-values.ts";

export async function readJobs(
  calls: Calls,
  routes: Routes,
  ids: readonly string[],
): Promise<(JobRecord | null)[]> {
  if (ids.length === 0) return [];
  const rows = await callRead(calls, "read_jobs_v1", [[...new Set(ids)].map(packText)]);
  const found = new Map((await recordsOf(calls, routes, rows)).map((record) => [record.id, record]));
  return ids.map((id) => found.get(id) ?? null);
}

async function recordsOf(calls: Calls, routes: Routes, rows: readonly Row[]): Promise<JobRecord[]> {
  const jobs = await readRows(calls, rows, recordFields, ({ state, cancelAsked, ...job }) => ({
    ...job,
    state: stateOfCode(state),
    cancelAsked: cancelAsked === 1,
  }));
  const contents = await routes.contentsOf(jobs.map(({ route }) => route));
  return jobs.map(({ route: _route, ...job }, at) => ({
    ...job,
    ...shownRoute(contents[at] as RouteContent),
  }));
}

const idAt = recordFields.indexOf("id");
const seqAt = recordFields.indexOf("seq");

export async function findJobs(calls: Calls, routes: Routes, request: FindRequest): Promise<FindAnswer> {
  const { filter, max, scanMax, cursor } = request;
  const { states = jobStates, tag, queue, name, requires, reason } = filter;
  const { createdAfter = null, createdBefore = null, keepsLane = false } = filter;
  const terminal = states.filter(isTerminal);
  const rows = await callRead(calls, "find_jobs_v1", [
    cursor ?? Number.MAX_SAFE_INTEGER,
    scanMax,
    max,
    states.some((state) => !isTerminal(state) && state !== "running"),
    states.includes("running"),
    !keepsLane && terminal.includes("completed"),
    !keepsLane && terminal.length > 0 && !terminal.includes("completed"),
    keepsLane && terminal.length > 0,
    keepsLane,
    packNullable(tag),
    numberList(states.map((state) => stateCodes[state])),
    packNullable(queue),
    packNullable(name),
    requires === undefined ? null : listText(requires),
    packNullable(reason),
    createdAfter,
    createdBefore,
  ]);
  // A row without an id stands for no job: it says how far the search came.
  const isJob = (row: Row): boolean => row[idAt + 1] !== null;
  const jobs = await recordsOf(
    calls,
    routes,
    rows.filter(isJob).map(([, ...fields]) => fields),
  );
  const last = rows.at(-1);
  const isOver = last === undefined || (!isJob(last) && last[seqAt + 1] === null);
  return { jobs, cursor: isOver ? null : (last[seqAt + 1] ?? null), scanned: Number(last?.[0] ?? 0) };
}

export async function countJobs(calls: Calls, routes: Routes): Promise<StateCount[]> {
  const rows = await callRead(calls, "count_jobs_v1", []);
  // Counts under a code that is no state are left out; the audit corrects them.
  const known = rows.filter(([, state]) => jobStates[Number(state)] !== undefined);
  const contents = await routes.contentsOf(known.map(([route]) => Number(route)));
  return addStateCounts(
    known.map(([, state, count], at) => [
      {
        ...countedRoute(contents[at] as RouteContent),
        state: stateOfCode(Number(state)),
        count: Number(count),
      },
    ]),
  );
}

/** A read that writes, because it numbers the new records. */
export async function readPackedFeed(calls: Calls, { after, max }: FeedRequest): Promise<PackedFeed> {
  const rows = await callRead(calls, "read_feed_v1", [after, max]);
  const end = Number(rows.at(-1)?.[0] ?? Math.max(0, after));
  if (after < 0) return { end, records: [] };
  return { end, records: rows.map(([number, at, body]) => [Number(number), Number(at), body as string]) };
}

export async function readFeed(calls: Calls, request: FeedRequest): Promise<FeedAnswer> {
  const { end, records } = await readPackedFeed(calls, request);
  return {
    records: records.map(([number, at, events]) => ({ number, at, ...readRecord(events, request) })),
    cursor: end,
  };
}

export async function readLogs(
  calls: Calls,
  { id, after, max }: { readonly id: string; readonly after: number; readonly max: number },
): Promise<LogsAnswer> {
  const rows = await callRead(calls, "read_logs_v1", [packText(id), after, max]);
  const lines = rows.map(([number, at, body]) => ({
    number: Number(number),
    at: Number(at),
    body: unpackText(body as string),
  }));
  return { lines, cursor: lines.at(-1)?.number ?? after };
}
