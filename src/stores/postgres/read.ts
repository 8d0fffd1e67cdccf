/** Looking at jobs (sql/read.ts, sql/feed.ts): by id, in lists, their counts, their log lines, and what was told. */
import { isTerminal, jobStates, stateCodes, stateOfCode } from "../../model/job-state.ts";
import type {
  FeedAnswer,
  FeedRequest,
  FindAnswer,
  FindRequest,
  TrailAnswer,
} from "../../store/operations.ts";
import type { JobRecord, Tally } from "../../store/records.ts";
import { readEvents } from "../../store/packed-events.ts";
import type { PackedFeed } from "../../store/watch.ts";
import { callRead } from "./call.ts";
import type { Calls } from "./call.ts";
import type { Row } from "./database.ts";
import { numberList, packText, readNumber, unpackNullable, unpackText } from "./text.ts";

export async function readJobs(calls: Calls, ids: readonly string[]): Promise<(JobRecord | null)[]> {
  if (ids.length === 0) return [];
  const rows = await callRead(calls, "read_jobs_v1", [[...new Set(ids)].map(packText)]);
  const found = new Map(rows.map((row) => [unpackText(row[0] as string), row]));
  return ids.map((id) => {
    const row = found.get(id);
    return row === undefined ? null : recordOf(row);
  });
}

function recordOf(row: Row): JobRecord {
  const text = (index: number): string | null => unpackNullable(row[index] ?? null);
  const number = (index: number): number | null => readNumber(row[index] ?? null);
  const tags = row[8] ?? null;
  return {
    id: text(0) as string,
    seq: Number(row[1]),
    queue: text(2) as string,
    name: text(3) as string,
    createdAt: Number(row[4]),
    uniqueKey: text(5),
    policy: text(6),
    meta: text(7),
    tags: tags === null ? null : (JSON.parse(tags) as string[]).map(unpackText),
    input: text(9) as string,
    state: stateOfCode(Number(row[10])),
    rev: Number(row[11]),
    fence: Number(row[12]),
    attempt: Number(row[13]),
    countsAttempt: Number(row[14]) as 0 | 1,
    rank: Number(row[15]),
    dueAt: Number(row[16]),
    deadlineAt: number(17),
    ttlAt: number(18),
    cancelAsked: row[19] === "t",
    owner: text(20),
    claimedAt: number(21),
    startedAt: number(22),
    attempts: text(23),
    progress: text(24),
    leaseEndsAt: number(25),
    attemptEndsAt: number(26),
    endedAt: number(27),
    reason: text(28),
    result: text(29),
    keepUntil: number(30),
  };
}

export async function findJobs(calls: Calls, request: FindRequest): Promise<FindAnswer> {
  const { filter, max, scanMax, cursor } = request;
  const { states = jobStates, tag, queue, name, reason, createdAfter = null, createdBefore = null } = filter;
  const terminal = states.filter(isTerminal);
  const packed = (text: string | undefined): string | null => (text === undefined ? null : packText(text));
  const rows = await callRead(calls, "find_jobs_v1", [
    cursor ?? Number.MAX_SAFE_INTEGER,
    scanMax,
    max,
    states.some((state) => !isTerminal(state) && state !== "running"),
    states.includes("running"),
    terminal.includes("completed") ? 2 : terminal.length > 0 ? 1 : 0,
    packed(tag),
    numberList(states.map((state) => stateCodes[state])),
    packed(queue),
    packed(name),
    packed(reason),
    createdAfter,
    createdBefore,
  ]);
  const found = rows.filter((row) => row[1] !== null);
  const jobs = found.map((row) => recordOf(row.slice(1)));
  const last = rows.at(-1);
  if (last === undefined) return { jobs, cursor: null, scanned: 0 };
  if (last[1] !== null) return { jobs, cursor: String(jobs.at(-1)?.seq), scanned: Number(last[0]) };
  return { jobs, cursor: last[2] ?? null, scanned: Number(last[0]) };
}

export async function tallyJobs(calls: Calls): Promise<Tally[]> {
  const rows = await callRead(calls, "tally_jobs_v1", []);
  return rows.map(([queue, name, state, count]) => ({
    queue: unpackText(queue as string),
    name: unpackText(name as string),
    state: stateOfCode(Number(state)),
    count: Number(count),
  }));
}

/** Numbers what is fresh, so it is a read that writes. */
export async function readPackedFeed(calls: Calls, { after, max }: FeedRequest): Promise<PackedFeed> {
  const rows = await callRead(calls, "read_feed_v1", [after, max]);
  const end = Number(rows.at(-1)?.[0] ?? Math.max(0, after));
  if (after < 0) return { end, records: [] };
  return { end, records: rows.map(([number, at, body]) => [Number(number), Number(at), body as string]) };
}

export async function readFeed(calls: Calls, request: FeedRequest): Promise<FeedAnswer> {
  const { end, records } = await readPackedFeed(calls, request);
  return {
    records: records.map(([number, at, events]) => ({ number, at, events: readEvents(events) })),
    cursor: end,
  };
}

export async function readTrail(
  calls: Calls,
  { id, after, max }: { readonly id: string; readonly after: number; readonly max: number },
): Promise<TrailAnswer> {
  const rows = await callRead(calls, "read_trail_v1", [packText(id), after, max]);
  const lines = rows.map(([number, at, body]) => ({
    number: Number(number),
    at: Number(at),
    body: unpackText(body as string),
  }));
  return { lines, cursor: lines.at(-1)?.number ?? after };
}
