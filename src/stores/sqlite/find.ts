/**
 * Lists of jobs, newest first by seq, over live and finished ones. A list looks at no more than `scanMax` rows and
 * says where to go on, so a filter that matches nothing never holds the store for long.
 */
import { isTerminal, jobStates, stateCodes } from "../../model/job-state.ts";
import { hasSameCaps } from "../../model/route.ts";
import type { FindAnswer, FindRequest, JobFilter } from "../../store/operations.ts";
import type { JobRecord } from "../../store/records.ts";
import { columnList, rowReader } from "./columns.ts";
import type { Picked } from "./columns.ts";
import { limitTo } from "./connection.ts";
import type { Statements } from "./connection.ts";
import { readRecord } from "./read.ts";
import { readRoutes } from "./routes.ts";
import { isNotCompleted, isRunning } from "./schema.ts";

const scannedNames = ["seq", "route", "state", "reason", "createdAt"] as const;
type Scanned = Picked<(typeof scannedNames)[number]>;
const readScanned = rowReader(scannedNames);

const createdAt = "(SELECT created_at FROM millrace_spec s WHERE s.seq = t.seq)";
const ofLive = columnList(scannedNames, { createdAt, reason: "NULL" }, "t.");
const ofFinished = columnList(scannedNames, { createdAt }, "t.");
const newestFirst = `t.seq < ? ORDER BY t.seq DESC ${limitTo("?")}`;
/** Inputs: seq to go on below, limit. Answer: rows to look at, newest first. */
const live = `SELECT ${ofLive} FROM millrace_job t WHERE ${newestFirst}`;
const onlyRunning = `SELECT ${ofLive} FROM millrace_job t INDEXED BY millrace_job_running
  WHERE ${isRunning} AND ${newestFirst}`;
const finished = `SELECT ${ofFinished} FROM millrace_history t WHERE ${newestFirst}`;
const notCompleted = `SELECT ${ofFinished} FROM millrace_history t INDEXED BY millrace_history_other
  WHERE ${isNotCompleted} AND ${newestFirst}`;
/** Inputs: tag, seq to go on below, limit. */
const ofEither = {
  createdAt,
  seq: "t.seq",
  route: "ifnull(j.route, h.route)",
  state: "ifnull(j.state, h.state)",
};
const tagged = `SELECT ${columnList(scannedNames, ofEither, "h.")}
  FROM millrace_tag t LEFT JOIN millrace_job j ON j.seq = t.seq LEFT JOIN millrace_history h ON h.seq = t.seq
  WHERE t.tag = ? AND (j.seq IS NOT NULL OR h.seq IS NOT NULL) AND ${newestFirst}`;

const chunkMax = 500;

export function findJobs(statements: Statements, request: FindRequest): FindAnswer {
  const { filter, max, scanMax } = request;
  const isWanted = readFilter(statements, filter);
  const jobs: JobRecord[] = [];
  let below = request.cursor === null ? Number.MAX_SAFE_INTEGER : Number(request.cursor);
  let scanned = 0;
  while (jobs.length < max && scanned < scanMax) {
    const wanted = Math.min(chunkMax, scanMax - scanned);
    const rows = readChunk(statements, filter, below, wanted);
    for (const row of rows) {
      scanned += 1;
      below = row.seq;
      if (!isWanted(row)) continue;
      jobs.push(readRecord(statements, row.seq));
      if (jobs.length === max) break;
    }
    const isPageFull = jobs.length === max && below !== rows.at(-1)?.seq;
    if (rows.length < wanted && !isPageFull) return { jobs, cursor: null, scanned };
  }
  return { jobs, cursor: String(below), scanned };
}

function readChunk(
  statements: Statements,
  { tag, states = jobStates }: JobFilter,
  below: number,
  wanted: number,
): Scanned[] {
  if (tag !== undefined) return statements(tagged).all(tag, below, wanted).map(readScanned);
  const terminal = states.filter(isTerminal);
  const waiting = states.filter((state) => !isTerminal(state));
  const sources: string[] = [];
  if (waiting.length > 0) sources.push(waiting.every((state) => state === "running") ? onlyRunning : live);
  if (terminal.length > 0) sources.push(terminal.includes("completed") ? finished : notCompleted);
  const rows = sources.flatMap((source) => statements(source).all(below, wanted).map(readScanned));
  return rows.sort((one, other) => other.seq - one.seq).slice(0, wanted);
}

function readFilter(statements: Statements, filter: JobFilter): (row: Scanned) => boolean {
  const { states, queue, name, caps, reason, createdAfter, createdBefore } = filter;
  const codes = states === undefined ? null : new Set<number>(states.map((state) => stateCodes[state]));
  let routes: Set<number> | null = null;
  if (queue !== undefined || name !== undefined || caps !== undefined) {
    const meant = readRoutes(statements).filter(
      (route) =>
        (queue ?? route.queue) === route.queue &&
        (name ?? route.name) === route.name &&
        hasSameCaps(caps ?? route.caps, route.caps),
    );
    routes = new Set(meant.map(({ number }) => number));
  }
  return (row) =>
    (codes === null || codes.has(row.state)) &&
    (routes === null || routes.has(row.route)) &&
    (reason === undefined || row.reason === reason) &&
    (createdAfter === undefined || row.createdAt > createdAfter) &&
    (createdBefore === undefined || row.createdAt < createdBefore);
}
