/** Reads of jobs (read.lua.ts): by id, in lists, their counts, their log lines, and their events. */
import { jobStates, stateCodes, stateOfCode } from "../../../model/job/job-state.ts";
import type { JobState } from "../../../model/job/job-state.ts";
import { countedRoute } from "../../../model/routing/route.ts";
import type { FeedRequest } from "../../../store/operations.ts";
import { readRecord } from "../../../store/packing/packed-events.ts";
import type { JobRecord } from "../../../store/records.ts";
import { addStateCounts } from "../../../store/state-counts.ts";
import type { ReadyHead } from "../../../store/store.ts";
import type { PackedFeed } from "../../../store/watch/watch.ts";
import { repair, repairIds } from "../upkeep/unreadable.ts";
import { valueText } from "../packing/argument-text.ts";
import type { Calls, Operation } from "../connection/call.ts";
import { jobRecordOf, readTexts } from "../packing/packed-job.ts";
import { requiresText, readRoute, readRoutes } from "../packing/route-text.ts";
import { fieldEnd, packText, rowsOf, unpackText } from "../packing/value-text.ts";

export const readJobs: Operation<"readJobs"> = async (calls, ids) => {
  if (ids.length === 0) return [];
  type Answer = [routes: string[], flat: string[], lost: string[]];
  const answer = (await calls.connection.read("mr1_read_jobs", ids.map(packText))) as Answer;
  const [routes, flat, lost] = answer;
  await repairIds(calls, lost);
  return recordsOf(routes, flat);
};

function recordsOf(listed: readonly string[], flat: readonly string[]): (JobRecord | null)[] {
  const routes = readRoutes(listed);
  return readTexts(flat).map((texts) => (texts === null ? null : jobRecordOf(texts, routes)));
}

export const findJobs: Operation<"findJobs"> = async (calls, { filter, max, scanMax, cursor }) => {
  const { states = jobStates, tag, queue, name, requires, reason, createdAfter, createdBefore } = filter;
  const { keepsLane = false } = filter;
  const packed = (text: string | undefined): string => (text === undefined ? "" : packText(text));
  const [routes, scanned, next, flat, unreadable] = (await calls.connection.read("mr1_find_jobs", [
    cursor ?? String(Number.MAX_SAFE_INTEGER),
    String(max),
    String(scanMax),
    states.map((state) => stateCodes[state]).join(""),
    packed(tag),
    packed(queue),
    packed(name),
    valueText(requires !== undefined),
    requiresText(requires ?? []),
    valueText(reason !== undefined),
    packed(reason),
    valueText(createdAfter),
    valueText(createdBefore),
    valueText(keepsLane),
  ])) as [string[], number, string, string[], string[]];
  await repair(calls, unreadable);
  const jobs = recordsOf(routes, flat) as JobRecord[];
  return { jobs, cursor: next === "" ? null : next, scanned };
};

export const readAllRoutes: Operation<"readRoutes"> = async ({ connection }) => {
  const routes = readRoutes((await connection.read("mr1_routes", [])) as string[]);
  return [...routes.values()].sort((one, other) => one.number - other.number);
};

export async function readHeads({ connection }: Calls): Promise<readonly ReadyHead[]> {
  const answer = (await connection.read("mr1_heads", [])) as [now: string, listed: string[], flat: string[]];
  const routes = readRoutes(answer[1]);
  return rowsOf<[string, string]>(answer[2], 2).map(([route, dueAt]) => ({
    queue: routes.get(readRoute(route))?.queue ?? "",
    ageMs: Math.max(0, Number(answer[0]) - Number(dueAt)),
  }));
}

/** In the state counts of a route: all its jobs. */
const total = "t";

export const countJobs: Operation<"countJobs"> = async ({ connection }) => {
  const [listed, ready, flat] = (await connection.read("mr1_count_jobs", [])) as [
    string[],
    number[],
    string[],
  ];
  const totals = new Map<number, number>();
  const counts = new Map<number, Map<JobState, number>>();
  const routes = [...readRoutes(listed).values()];
  for (const [index, { number }] of routes.entries())
    counts.set(number, new Map([["ready", ready[index] as number]]));
  for (const [field, emitted] of rowsOf<[string, string]>(flat, 2)) {
    const [route = "", state] = field.split(":");
    const [number, count] = [readRoute(route), Number(emitted)];
    if (state === total) totals.set(number, count);
    else counts.get(number)?.set(stateOfCode(Number(state)), count);
  }
  return addStateCounts(
    routes.map((route) => {
      const { number } = route;
      const byState = counts.get(number) as Map<JobState, number>;
      const others = [...byState.values()].reduce((sum, count) => sum + count, 0);
      byState.set("running", (totals.get(number) ?? 0) - others);
      return [...byState].flatMap(([state, count]) =>
        count === 0 ? [] : [{ ...countedRoute(route), state, count }],
      );
    }),
  );
};

export async function readPackedFeed(
  { connection }: Pick<Calls, "connection">,
  { after, max }: FeedRequest,
): Promise<PackedFeed> {
  const answer = await connection.read("mr1_read_feed", [String(after), String(max)]);
  const [end, flat] = answer as [string, string[]];
  const records = rowsOf<[string, string, string]>(flat, 3).map(
    ([number, at, events]) => [Number.parseInt(number, 10), Number(at), events] as const,
  );
  return { end: Number(end), records };
}

export const readFeed: Operation<"readFeed"> = async (calls, request) => {
  const { end, records } = await readPackedFeed(calls, request);
  if (request.after < 0) return { records: [], cursor: end };
  return {
    records: records.map(([number, at, packed]) => ({
      ...{ number, at },
      ...readRecord(packed, request, readRoute),
    })),
    cursor: records.at(-1)?.[0] ?? request.after,
  };
};

export const readLogs: Operation<"readLogs"> = async ({ connection }, { id, after, max }) => {
  const args = [packText(id), String(after), String(max)];
  const rows = (await connection.read("mr1_read_logs", args)) as string[];
  const lines = rows.map((row, index) => {
    const end = row.indexOf(fieldEnd);
    return { number: after + index + 1, at: Number(row.slice(0, end)), body: unpackText(row.slice(end + 1)) };
  });
  return { lines, cursor: lines.at(-1)?.number ?? after };
};
