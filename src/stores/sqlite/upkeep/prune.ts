/**
 * Retention: what has been kept long enough goes, a bounded piece per call. Finished jobs leave with their tags,
 * payload and log lines. The newest feed record always stays: it carries the store's time (R1).
 */
import type { PruneAnswer, PruneRequest } from "../../../store/upkeep.ts";
import { isFlow } from "../../../store/rules/flow/member.ts";
import { isOutdated, surplusOf } from "../../../store/rules/prune.ts";
import type { HistoryRequest, SurplusRequest } from "../../../store/rules/prune.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import { count } from "../../../store/rules/call-events.ts";
import { columnList, rowReader } from "../connection/columns.ts";
import { limitTo, readValue } from "../connection/connection.ts";
import { dropDoc } from "../documents/documents.ts";
import { deferWork } from "../flows/targets.ts";
import { deleteJobs } from "../jobs/delete-job.ts";
import { readRoutes } from "../jobs/routes.ts";
import { readKept as readKeptJob } from "../jobs/job-rows.ts";
import { isNotCompleted } from "../connection/schema.ts";
import { runOnSeqs } from "../connection/seq-list.ts";
import type { Step } from "../connection/transaction.ts";
import { sql } from "../../../store/sql.ts";

export function prune(step: Step, request: PruneRequest): PruneAnswer {
  switch (request.what) {
    case "history":
      return pruneHistory(step, request);
    case "surplus":
      return pruneSurplus(step, request);
    case "kept":
      return pruneKept(step, request.max);
    case "expired":
      return pruneExpired(step, request.max);
    case "feed":
      return pruneFeed(step, request.olderThanMs, request.max);
  }
}

const rowNames = ["seq", "route", "state", "endedAt", "keepUntil", "keepsLane", "waits", "durable"] as const;
const readFinished = rowReader(rowNames);
type Row = ReturnType<typeof readFinished>;
const columns = columnList(rowNames);

/** Rows looked at per row that may be pruned, and at least. */
const windowFactor = 4;
const windowMin = 1000;
const chunkRows = 500;

/** Inputs: seq to go on after, limit. Answer: finished rows in order of seq. */
const readAll = sql`SELECT ${columns} FROM millrace_history WHERE seq > ? ORDER BY seq ${limitTo("?")}`;
const readOthers = sql`SELECT ${columns} FROM millrace_history INDEXED BY millrace_history_other
  WHERE ${isNotCompleted} AND seq > ? ORDER BY seq ${limitTo("?")}`;
/** Input: seq. Answer: when it was submitted. */
const readCreated = "SELECT created_at FROM millrace_spec WHERE seq = ?";

function pruneHistory(step: Step, request: HistoryRequest): PruneAnswer {
  const { statements, now } = step;
  const queueOf = new Map(readRoutes(step).map(({ number, queue }) => [number, queue]));
  const endedBefore = now - request.olderThanMs;
  const windowRows = windowOf(request);
  const read = statements(readOf(request));
  const old: Row[] = [];
  let last = request.cursor === null ? 0 : Number(request.cursor);
  let more = true;
  for (let looked = 0; more && looked < windowRows && old.length < request.max;) {
    const rows = read.all(last, chunkRows).map(readFinished);
    // Nobody ends before being submitted, and seqs are given in order of time: behind a young job all are young.
    // Without this every run would walk everything that is kept.
    const isYoung = isSubmittedAfter(step, rows[0], endedBefore);
    more = !isYoung && rows.length === chunkRows;
    for (const row of isYoung ? [] : rows) {
      if (old.length === request.max) {
        more = true;
        break;
      }
      looked += 1;
      last = row.seq;
      if (isOutdated(row, queueOf.get(row.route) ?? "", request, now)) old.push(row);
    }
  }
  pruneFinished(step, old);
  return { pruned: old.length, more, cursor: more ? String(last) : null };
}

const windowOf = ({ max }: PruneRequest): number => Math.max(windowMin, max * windowFactor);
const readOf = ({ outcome }: HistoryRequest | SurplusRequest): string =>
  outcome === "completed" ? readAll : readOthers;

/** Inputs: queue, state. Answer: how many finished so. */
const countFinished = sql`
  SELECT ifnull(sum(t.count), 0) FROM millrace_state_count t JOIN millrace_route r ON r.number = t.route
  WHERE r.queue = ? AND t.state = ?`;

/**
 * A window at a time, and on to the next once nothing in it may go. Behind the last one a walk begins at the head
 * again.
 */
function pruneSurplus(step: Step, request: SurplusRequest): PruneAnswer {
  const { statements } = step;
  const { queue, outcome, keep, cursor } = request;
  const surplus = (readValue<number>(statements, countFinished, queue, stateCodes[outcome]) ?? 0) - keep;
  if (surplus <= 0) return { pruned: 0, more: false, cursor };
  const own = new Set(readRoutes(step).flatMap((route) => (route.queue === queue ? [route.number] : [])));
  const windowRows = windowOf(request);
  const rows = statements(readOf(request))
    .all(Number(cursor ?? 0), windowRows)
    .map(readFinished);
  const ofQueue = rows.filter(({ route }) => own.has(route));
  const { goes, isAll } = surplusOf(ofQueue, surplus, request);
  pruneFinished(step, goes);
  if (goes.length === surplus || !isAll) return { pruned: goes.length, more: goes.length < surplus, cursor };
  const last = rows.length < windowRows ? null : String(rows.at(-1)?.seq);
  return { pruned: goes.length, more: last !== null, cursor: last };
}

function isSubmittedAfter({ statements }: Step, row: Row | undefined, time: number): boolean {
  return row !== undefined && (readValue<number>(statements, readCreated, row.seq) ?? time) > time;
}

/** Inputs: the seqs. */
const dropFinished = "DELETE FROM millrace_history";

function pruneFinished(step: Step, rows: readonly Row[]): void {
  const seqs = rows.map(({ seq }) => seq);
  for (const { seq } of rows.filter(isFlow)) deferWork(step, readKeptJob(step.statements, seq).id);
  runOnSeqs(step.statements, dropFinished, seqs);
  const durable = rows.filter((row) => row.durable !== 0);
  deleteJobs(
    step.statements,
    seqs,
    durable.map(({ seq }) => seq),
  );
  for (const { route, state } of rows) count(step, route, state, -1);
}

/** Inputs: now, limit. */
const readKept = sql`SELECT ${columns} FROM millrace_history INDEXED BY millrace_history_keep
  WHERE keep_until IS NOT NULL AND keep_until <= ? ORDER BY keep_until, seq ${limitTo("?")}`;

/** Inputs: now, limit. */
const dropResults = sql`UPDATE millrace_history SET result = NULL, result_until = NULL WHERE seq IN (
  SELECT seq FROM millrace_history INDEXED BY millrace_history_result
  WHERE result_until IS NOT NULL AND result_until <= ? ORDER BY result_until, seq ${limitTo("?")})`;

function pruneKept(step: Step, max: number): PruneAnswer {
  const { statements, now } = step;
  const rows = statements(readKept).all(now, max).map(readFinished);
  pruneFinished(step, rows);
  const dropped = rows.length < max ? Number(statements(dropResults).run(now, max - rows.length).changes) : 0;
  const pruned = rows.length + dropped;
  return { pruned, more: pruned === max, cursor: null };
}

/** Inputs: now, limit. */
const readFreeKeys = sql`SELECT key FROM millrace_unique
  WHERE held_until IS NOT NULL AND held_until <= ? ORDER BY held_until ${limitTo("?")}`;
const readOldDocs = sql`SELECT kind, id, version FROM millrace_doc
  WHERE expires_at IS NOT NULL AND expires_at <= ? ORDER BY expires_at ${limitTo("?")}`;
const dropKey = "DELETE FROM millrace_unique WHERE key = ?";

function pruneExpired({ statements, now }: Step, max: number): PruneAnswer {
  const keys = statements(readFreeKeys).all(now, max + 1) as [key: string][];
  for (const [key] of keys.slice(0, max)) statements(dropKey).run(key);
  const left = Math.max(0, max - keys.length);
  const docs = statements(readOldDocs).all(now, left + 1) as [kind: string, id: string, version: number][];
  for (const [kind, id, version] of docs.slice(0, left)) dropDoc(statements, { kind, id }, version);
  const found = keys.length + docs.length;
  return { pruned: Math.min(found, max), more: found > max, cursor: null };
}

/** Inputs: limit, time. Answer: the newest record that may go, among the oldest ones. */
const lastOld = sql`SELECT max(number) FROM (SELECT number, at FROM millrace_feed ORDER BY number ${limitTo("?")})
  WHERE at <= ? AND number < (SELECT max(number) FROM millrace_feed)`;
const dropRecords = "DELETE FROM millrace_feed WHERE number <= ?";

function pruneFeed({ statements, now }: Step, olderThanMs: number, max: number): PruneAnswer {
  const last = readValue<number>(statements, lastOld, max, now - olderThanMs);
  const pruned = last === null ? 0 : Number(statements(dropRecords).run(last).changes);
  return { pruned, more: pruned === max, cursor: null };
}
