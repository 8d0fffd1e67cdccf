/** Looking at jobs (lua/read.ts): by id, in lists, their counts, their log lines, and what was told. */
import { jobStates, stateCodes, stateOfCode } from "../../model/job-state.ts";
import type { JobState } from "../../model/job-state.ts";
import type {
  FeedAnswer,
  FeedRequest,
  FindAnswer,
  FindRequest,
  TrailAnswer,
} from "../../store/operations.ts";
import { readEvents } from "../../store/packed-events.ts";
import type { JobRecord, Tally } from "../../store/records.ts";
import type { PackedFeed } from "../../store/watch.ts";
import type { Calls } from "./call.ts";
import { jobRecordOf } from "./record.ts";
import { knownText } from "./route-book.ts";
import type { RoutePage } from "./route-book.ts";
import { fieldEnd, packNumber, packText, unpackText } from "./text.ts";

export async function readJobs(calls: Calls, ids: readonly string[]): Promise<(JobRecord | null)[]> {
  if (ids.length === 0) return [];
  const asked = askRoutes(calls);
  const [listed, flat] = (await calls.connection.read("mr1_read_jobs", [
    asked.text,
    ...ids.map(packText),
  ])) as [string[], string[]];
  return recordsOf(calls, asked.learn(listed), flat);
}

/** What is known of routes goes out with a call, and what is new comes back with its answer. */
function askRoutes({ routes }: Calls): { text: string; learn(listed: readonly string[]): RoutePage } {
  const { page } = routes;
  const known = page.own.length;
  return { text: knownText(page), learn: (listed) => routes.learn(page, known, listed) };
}

/** Handle, spec and state of each; "" where there is none. */
function recordsOf({ routes: book }: Calls, page: RoutePage, flat: readonly string[]): (JobRecord | null)[] {
  const records: (JobRecord | null)[] = [];
  for (let at = 0; at < flat.length; at += 3) {
    const [handle, spec, state] = flat.slice(at, at + 3) as [string, string, string];
    records.push(handle === "" ? null : jobRecordOf({ book, page }, handle, spec, state));
  }
  return records;
}

export async function findJobs(calls: Calls, request: FindRequest): Promise<FindAnswer> {
  const { filter, max, scanMax, cursor } = request;
  const { states = jobStates, tag, queue, name, reason, createdAfter, createdBefore } = filter;
  const packed = (text: string | undefined): string => (text === undefined ? "" : packText(text));
  const asked = askRoutes(calls);
  const [listed, scanned, next, flat] = (await calls.connection.read("mr1_find_jobs", [
    asked.text,
    cursor ?? String(Number.MAX_SAFE_INTEGER),
    String(max),
    String(scanMax),
    states.map((state) => stateCodes[state]).join(""),
    packed(tag),
    packed(queue),
    packed(name),
    reason === undefined ? "0" : "1",
    packed(reason),
    packNumber(createdAfter),
    packNumber(createdBefore),
  ])) as [string[], number, string, string[]];
  const jobs = recordsOf(calls, asked.learn(listed), flat) as JobRecord[];
  return { jobs, cursor: next === "" ? null : next, scanned };
}

/** Ready jobs are counted by their index, and what is in no other state is running. */
export async function tallyJobs(calls: Calls): Promise<Tally[]> {
  const asked = askRoutes(calls);
  const [listed, ready, flat] = (await calls.connection.read("mr1_tally", [asked.text])) as [
    string[],
    number[],
    string[],
  ];
  const page = asked.learn(listed);
  const counts = ready.map((count) => new Map<JobState, number>([["ready", count]]));
  const totals = ready.map(() => 0);
  for (let at = 0; at < flat.length; at += 2) {
    const [route, status] = (flat[at] as string).split(":");
    const count = Number(flat[at + 1]);
    if (status === "t") totals[Number(route) - 1] = count;
    else counts[Number(route) - 1]?.set(stateOfCode(Number(status)), count);
  }
  return counts.flatMap((byState, index) => {
    const { queue, name } = calls.routes.of(page, index + 1);
    const others = [...byState.values()].reduce((sum, count) => sum + count, 0);
    byState.set("running", (totals[index] ?? 0) - others);
    return [...byState].flatMap(([state, count]) => (count === 0 ? [] : [{ queue, name, state, count }]));
  });
}

/** End of the feed, then number, time and events of each record. */
export async function readPackedFeed(
  { connection }: Pick<Calls, "connection">,
  { after, max }: FeedRequest,
): Promise<PackedFeed> {
  const [end, flat] = (await connection.read("mr1_read_feed", [String(after), String(max)])) as [
    string,
    string[],
  ];
  const records: [number, number, string][] = [];
  for (let at = 0; at < flat.length; at += 3)
    records.push([Number.parseInt(flat[at] as string, 10), Number(flat[at + 1]), flat[at + 2] as string]);
  return { end: Number(end), records };
}

export async function readFeed(calls: Calls, request: FeedRequest): Promise<FeedAnswer> {
  const { end, records } = await readPackedFeed(calls, request);
  if (request.after < 0) return { records: [], cursor: end };
  return {
    records: records.map(([number, at, packed]) => {
      const events = readEvents(packed).map((event) => ({
        ...event,
        route: calls.routes.ownOf(event.route),
      }));
      return { number, at, events };
    }),
    cursor: records.at(-1)?.[0] ?? request.after,
  };
}

export async function readTrail(
  calls: Calls,
  { id, after, max }: { readonly id: string; readonly after: number; readonly max: number },
): Promise<TrailAnswer> {
  const args = [packText(id), String(after), String(max)];
  const rows = (await calls.connection.read("mr1_read_trail", args)) as string[];
  const lines = rows.map((row, index) => {
    const end = row.indexOf(fieldEnd);
    return { number: after + index + 1, at: Number(row.slice(0, end)), body: unpackText(row.slice(end + 1)) };
  });
  return { lines, cursor: lines.at(-1)?.number ?? after };
}
