/**
 * Lists of jobs, newest first by seq, over live and finished ones. A list looks at no more than `scanMax` rows and says where to go on, so a
 * filter that matches nothing never holds the store for long.
 */
import { isTerminal, jobStates, stateCodes } from "../../model/job-state.ts";
import type { FindAnswer, FindRequest, JobFilter } from "../../store/operations.ts";
import type { JobRecord } from "../../store/records.ts";
import type { Statements } from "./connection.ts";
import { readRecord } from "./read.ts";

type Row = [seq: number, route: number, state: number, reason: string | null, createdAt: number];

const created = "(SELECT created_at FROM millrace_spec s WHERE s.seq = t.seq)";
/** Inputs: seq to go on below, limit. Answer: rows to look at, newest first. */
const live = `SELECT t.seq, t.route, t.state, NULL, ${created} FROM millrace_job t WHERE t.seq < ? ORDER BY t.seq DESC LIMIT ?`;
const onlyRunning = `SELECT t.seq, t.route, t.state, NULL, ${created} FROM millrace_job t INDEXED BY millrace_job_running
  WHERE t.state = ${stateCodes.running} AND t.seq < ? ORDER BY t.seq DESC LIMIT ?`;
const finished = `SELECT t.seq, t.route, t.state, t.reason, ${created} FROM millrace_history t WHERE t.seq < ? ORDER BY t.seq DESC LIMIT ?`;
const notCompleted = `SELECT t.seq, t.route, t.state, t.reason, ${created} FROM millrace_history t INDEXED BY millrace_history_other
  WHERE t.state <> ${stateCodes.completed} AND t.seq < ? ORDER BY t.seq DESC LIMIT ?`;
/** Inputs: tag, seq to go on below, limit. */
const tagged = `SELECT t.seq, ifnull(j.route, h.route), ifnull(j.state, h.state), h.reason, ${created}
  FROM millrace_tag t LEFT JOIN millrace_job j ON j.seq = t.seq LEFT JOIN millrace_history h ON h.seq = t.seq
  WHERE t.tag = ? AND t.seq < ? ORDER BY t.seq DESC LIMIT ?`;

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
      below = row[0];
      if (!isWanted(row)) continue;
      const job = readRecord(statements, row[0]);
      if (job !== null) jobs.push(job);
      if (jobs.length === max) break;
    }
    const isPageFull = jobs.length === max && below !== rows.at(-1)?.[0];
    if (rows.length < wanted && !isPageFull) return { jobs, cursor: null, scanned };
  }
  return { jobs, cursor: String(below), scanned };
}

function readChunk(
  statements: Statements,
  { tag, states = jobStates }: JobFilter,
  below: number,
  wanted: number,
): Row[] {
  if (tag !== undefined) return statements(tagged).all(tag, below, wanted) as Row[];
  const terminal = states.filter(isTerminal);
  const waiting = states.filter((state) => !isTerminal(state));
  const sources: string[] = [];
  if (waiting.length > 0) sources.push(waiting.every((state) => state === "running") ? onlyRunning : live);
  if (terminal.length > 0) sources.push(terminal.includes("completed") ? finished : notCompleted);
  const rows = sources.flatMap((source) => statements(source).all(below, wanted) as Row[]);
  return rows.sort((one, other) => other[0] - one[0]).slice(0, wanted);
}

/** Inputs: none. Answer: every route. */
const allRoutes = "SELECT number, queue, name FROM millrace_route";

function readFilter(statements: Statements, filter: JobFilter): (row: Row) => boolean {
  const { states, queue, name, reason, createdAfter, createdBefore } = filter;
  const codes = states === undefined ? null : new Set<number>(states.map((state) => stateCodes[state]));
  let routes: Set<number> | null = null;
  if (queue !== undefined || name !== undefined) {
    const rows = statements(allRoutes).all() as [number: number, queue: string, name: string][];
    const matching = rows.filter(
      (row) => (queue === undefined || row[1] === queue) && (name === undefined || row[2] === name),
    );
    routes = new Set(matching.map((row) => row[0]));
  }
  return ([, route, state, endReason, createdAt]) =>
    (codes === null || codes.has(state)) &&
    (routes === null || routes.has(route)) &&
    (reason === undefined || endReason === reason) &&
    (createdAfter === undefined || createdAt > createdAfter) &&
    (createdBefore === undefined || createdAt < createdBefore);
}
