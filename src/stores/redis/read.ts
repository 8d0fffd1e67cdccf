/** Looking at jobs (lua/read.ts): by id, in lists, their counts, their log lines, and what was told. */
import { jobStates, stateCodes, stateOfCode } from "../../model/job-state.ts";
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
import { fieldEnd, packNumber, packText, unpackText } from "./text.ts";

export async function readJobs(calls: Calls, ids: readonly string[]): Promise<(JobRecord | null)[]> {
  if (ids.length === 0) return [];
  const known = calls.routes.known;
  const [routes, flat] = (await calls.connection.read("mr1_read_jobs", [
    String(known),
    ...ids.map(packText),
  ])) as [string[], string[]];
  calls.routes.add(known, routes);
  return recordsOf(calls, flat);
}

/** Handle, spec and state of each; "" where there is none. */
function recordsOf({ routes }: Calls, flat: readonly string[]): (JobRecord | null)[] {
  const records: (JobRecord | null)[] = [];
  for (let at = 0; at < flat.length; at += 3) {
    const [handle, spec, state] = flat.slice(at, at + 3) as [string, string, string];
    records.push(handle === "" ? null : jobRecordOf(routes, handle, spec, state));
  }
  return records;
}

export async function findJobs(calls: Calls, request: FindRequest): Promise<FindAnswer> {
  const { filter, max, scanMax, cursor } = request;
  const { states = jobStates, tag, queue, name, reason, createdAfter, createdBefore } = filter;
  const packed = (text: string | undefined): string => (text === undefined ? "" : packText(text));
  const known = calls.routes.known;
  const [routes, scanned, next, flat] = (await calls.connection.read("mr1_find_jobs", [
    String(known),
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
  calls.routes.add(known, routes);
  const jobs = recordsOf(calls, flat) as JobRecord[];
  return { jobs, cursor: next === "" ? null : next, scanned };
}

export async function tallyJobs(calls: Calls): Promise<Tally[]> {
  const known = calls.routes.known;
  const [routes, flat] = (await calls.connection.read("mr1_tally", [String(known)])) as [string[], string[]];
  calls.routes.add(known, routes);
  const tallies: Tally[] = [];
  for (let at = 0; at < flat.length; at += 2) {
    const [route = "", status = ""] = (flat[at] as string).split(":");
    const count = Number(flat[at + 1]);
    if (count === 0) continue;
    const { queue, name } = calls.routes.of(Number(route));
    tallies.push({ queue, name, state: stateOfCode(Number(status)), count });
  }
  return tallies;
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
    records: records.map(([number, at, events]) => ({ number, at, events: readEvents(events) })),
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
