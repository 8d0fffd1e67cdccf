/**
 * Lists of jobs, newest first by seq, over live and finished ones. A list looks at no more than `scanMax` rows and
 * says where to go on, so a filter that matches nothing never holds the store for long.
 */
import { isTerminal, jobStates } from "../../../model/job/job-state.ts";
import type { FindAnswer, FindRequest, JobFilter } from "../../../store/operations.ts";
import type { JobRecord } from "../../../store/records.ts";
import { openFilter } from "../../../store/rules/filter.ts";
import { columnList, rowReader } from "../connection/columns.ts";
import type { Formulas } from "../connection/columns.ts";
import { limitTo } from "../connection/connection.ts";
import type { Statements } from "../connection/connection.ts";
import { readRecord } from "./read.ts";
import { readRoutes } from "./routes.ts";
import { isKeeping, isNotCompleted, isRunning } from "../connection/schema.ts";
import type { Step } from "../connection/transaction.ts";
import { sql } from "../../../store/sql.ts";

const scannedNames = ["seq", "route", "state", "reason", "createdAt", "keepsLane"] as const;
const readScanned = rowReader(scannedNames);
type Scanned = ReturnType<typeof readScanned>;

const createdAt = "(SELECT created_at FROM millrace_spec s WHERE s.seq = t.seq)";
const newestFirst = `t.seq < ? ORDER BY t.seq DESC ${limitTo("?")}`;
/** Inputs: seq to go on below, limit. Answer: rows to look at, newest first. */
const ofTable = (source: string, formulas: Formulas, condition = "true"): string =>
  sql`SELECT ${columnList(scannedNames, { createdAt, ...formulas }, "t.")} FROM ${source}
    WHERE ${condition} AND ${newestFirst}`;
const noReason: Formulas = { reason: "NULL" };
const live = ofTable("millrace_job t", noReason);
const onlyRunning = ofTable("millrace_job t INDEXED BY millrace_job_running", noReason, isRunning);
const finished = ofTable("millrace_history t", {});
const notCompleted = ofTable("millrace_history t INDEXED BY millrace_history_other", {}, isNotCompleted);
const keeping = ofTable("millrace_history t INDEXED BY millrace_history_keeping", {}, isKeeping);
/** Inputs: tag, seq to go on below, limit. */
const ofEither = {
  createdAt,
  seq: "t.seq",
  route: "ifnull(j.route, h.route)",
  state: "ifnull(j.state, h.state)",
  keepsLane: "ifnull(j.keeps_lane, h.keeps_lane)",
};
const tagged = sql`SELECT ${columnList(scannedNames, ofEither, "h.")}
  FROM millrace_tag t LEFT JOIN millrace_job j ON j.seq = t.seq LEFT JOIN millrace_history h ON h.seq = t.seq
  WHERE t.tag = ? AND (j.seq IS NOT NULL OR h.seq IS NOT NULL) AND ${newestFirst}`;

const chunkMax = 500;

export function findJobs(step: Step, request: FindRequest): FindAnswer {
  const { statements } = step;
  const { filter, max, scanMax } = request;
  const isWanted = openFilter(filter, () => readRoutes(step));
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
      jobs.push(readRecord(step, row.seq));
      if (jobs.length === max) break;
    }
    const isPageFull = jobs.length === max && below !== rows.at(-1)?.seq;
    if (rows.length < wanted && !isPageFull) return { jobs, cursor: null, scanned };
  }
  return { jobs, cursor: String(below), scanned };
}

function readChunk(
  statements: Statements,
  { tag, states = jobStates, keepsLane }: JobFilter,
  below: number,
  wanted: number,
): Scanned[] {
  if (tag !== undefined) return statements(tagged).all(tag, below, wanted).map(readScanned);
  const terminal = states.filter(isTerminal);
  const waiting = states.filter((state) => !isTerminal(state));
  const sources: string[] = [];
  if (waiting.length > 0) sources.push(waiting.every((state) => state === "running") ? onlyRunning : live);
  if (terminal.length > 0 && keepsLane) sources.push(keeping);
  else if (terminal.length > 0) sources.push(terminal.includes("completed") ? finished : notCompleted);
  const rows = sources.flatMap((source) => statements(source).all(below, wanted).map(readScanned));
  return rows.sort((one, other) => other.seq - one.seq).slice(0, wanted);
}
