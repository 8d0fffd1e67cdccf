/** Looking at jobs: by id, their counts, their log lines, and the feed. None of it writes. */
import { stateOfCode } from "../../../model/job/job-state.ts";
import { countedRoute } from "../../../model/routing/route.ts";
import type { FeedAnswer, FeedRequest, LogsAnswer } from "../../../store/operations.ts";
import { readRecord as readCounts, routesLeft } from "../../../store/packing/packed-events.ts";
import type { JobRecord, StateCount } from "../../../store/records.ts";
import { recordOf } from "../../../store/rules/job-record.ts";
import type { ReadyHead } from "../../../store/store.ts";
import { limitTo, readValue } from "../connection/connection.ts";
import { Unreadable } from "../connection/errors.ts";
import { readAllRoutes, routesFreed, sumVersions } from "../limits/gates.ts";
import { askedOf, requiresColumn, readRoute, readRoutes } from "./routes.ts";
import { readKept, seqOfId } from "./job-rows.ts";
import { isReady } from "../connection/schema.ts";
import type { Step } from "../connection/transaction.ts";
import { isKnownState, readOrReport } from "../upkeep/find-unreadable.ts";
import { sql } from "../../../store/sql.ts";

/** The job with a seq that was found in the same transaction. */
export function readRecord({ statements, commit }: Step, seq: number): JobRecord {
  const row = readKept(statements, seq);
  const route = readRoute(statements, commit.routes, row.route);
  if (route === null) throw new Unreadable("job", seq, "its route is unknown");
  return recordOf(row, route);
}

export function readJobs(step: Step, ids: readonly string[]): (JobRecord | null)[] {
  return ids.map((id) => {
    const seq = seqOfId(step.statements, id);
    return seq === null ? null : readRecord(step, seq);
  });
}

/**
 * No input. Answer: every count that is not zero. Routes that differ in the order of their lanes are counted together.
 */
const readStateCounts = sql`
  SELECT r.queue, r.name, ${requiresColumn}, CASE WHEN json_valid(r.gates) THEN r.gates ELSE '[]' END,
    t.state, sum(t.count)
  FROM millrace_state_count t JOIN millrace_route r ON r.number = t.route
  WHERE t.count <> 0 AND t.${isKnownState} GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5`;

export function countJobs({ statements }: Step): StateCount[] {
  type Row = [queue: string, name: string, requires: string, gates: string, state: number, count: number];
  const rows = statements(readStateCounts).all() as Row[];
  return rows.map(([queue, name, requires, gates, state, count]) => ({
    ...countedRoute({ queue, name, ...askedOf(requires, gates) }),
    state: stateOfCode(state),
    count,
  }));
}

/** Inputs: number to go on after, limit. */
const readRecords = sql`SELECT number, at, body FROM millrace_feed WHERE number > ? ORDER BY number ${limitTo("?")}`;
/** No input. Answer: the number of the newest record. */
const readEnd = "SELECT max(number) FROM millrace_feed";
type FeedRow = readonly [number: number, at: number, body: string];

export function readFeed({ statements }: Step, request: FeedRequest): FeedAnswer {
  const { after, max } = request;
  if (after < 0) return { records: [], cursor: readValue<number>(statements, readEnd) ?? 0 };
  const records = (statements(readRecords).all(after, max) as FeedRow[]).map(([number, at, body]) => {
    return { number, at, ...readOrReport("feed", number, () => readCounts(body, request)) };
  });
  return { records, cursor: records.at(-1)?.number ?? after };
}

/** What a watch asks: the version and the last record that it has seen, null before its first look. */
interface NewsRequest {
  readonly version: number | null;
  readonly after: number | null;
  readonly gates: number;
  readonly max: number;
}

export interface News {
  /** Changes when another connection has committed. */
  readonly version: number | null;
  /** Nothing unless the version has changed: all that came since is this connection's own. */
  readonly records: readonly FeedRow[];
  /** The last record that was read or passed over. */
  readonly end: number;
  /** Grows with every put of a gate. */
  readonly gates: number;
  /** Routes on which somebody may pass a gate now. */
  readonly woken: readonly number[];
}

export function readNews({ statements }: Step, seen: NewsRequest): News {
  const version = readValue<number>(statements, "PRAGMA data_version");
  const isNew = seen.after !== null && version !== seen.version;
  const records = isNew ? (statements(readRecords).all(seen.after, seen.max) as FeedRow[]) : [];
  const last = records.length === seen.max ? records.at(-1)?.[0] : readValue<number>(statements, readEnd);
  const gates = isNew ? (readValue<number>(statements, sumVersions) ?? 0) : seen.gates;
  const left = records.flatMap(([, , body]) => routesLeft(body));
  const freed = left.length === 0 ? [] : routesFreed(statements, left);
  const put = gates === seen.gates ? [] : (statements(readAllRoutes).all() as [route: number][]).flat();
  return { version, records, end: last ?? 0, gates, woken: [...freed, ...put] };
}

/** Inputs: seq, number to go on after, limit. */
const readLines = sql`SELECT number, at, body FROM millrace_log
  WHERE seq = ? AND fence = 0 AND number > ? ORDER BY number ${limitTo("?")}`;

export function readLogs(
  { statements }: Step,
  request: { readonly id: string; readonly after: number; readonly max: number },
): LogsAnswer {
  const seq = seqOfId(statements, request.id);
  const rows =
    seq === null
      ? []
      : (statements(readLines).all(seq, request.after, request.max) as [number, number, string][]);
  const lines = rows.map(([number, at, body]) => ({ number, at, body }));
  return { lines, cursor: lines.at(-1)?.number ?? request.after };
}

/** No input. Answer: the bytes of the file, without what waits in the write-ahead log. */
const sizeOfFile = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";

export function readSize({ statements }: Step): number {
  return readValue<number>(statements, sizeOfFile) ?? 0;
}

/** No input. Answer: per route with ready jobs, the due time of the first of them. */
const firstDue = sql`SELECT t.route, (SELECT j.due_at FROM millrace_job j INDEXED BY millrace_job_ready
    WHERE j.route = t.route AND j.${isReady} ORDER BY j.rank, j.seq LIMIT 1)
  FROM millrace_state_count t WHERE t.${isReady} AND t.count > 0`;

export function readHeads(step: Step): readonly ReadyHead[] {
  const queues = new Map(readRoutes(step).map(({ number, queue }) => [number, queue]));
  const rows = step.statements(firstDue).all() as [route: number, dueAt: number | null][];
  return rows.flatMap(([route, dueAt]) =>
    dueAt === null ? [] : [{ queue: queues.get(route) ?? "", ageMs: Math.max(0, step.now - dueAt) }],
  );
}
