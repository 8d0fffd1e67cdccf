/** Looking at jobs: by id, their counts, their log lines, and what was told. None of it writes. */
import { stateOfCode } from "../../model/job-state.ts";
import { shownRoute } from "../../model/route.ts";
import { fieldNames, isFinishedField, isLiveField, isSpecField } from "../../store/job-fields.ts";
import type { JobField } from "../../store/job-fields.ts";
import type { FeedAnswer, FeedRequest, TrailAnswer } from "../../store/operations.ts";
import { readEvents } from "../../store/packed-events.ts";
import type { JobRecord, Tally } from "../../store/records.ts";
import { initialValues } from "../../store/rules/advance.ts";
import { columnList, fromJob, rowReader } from "./columns.ts";
import { limitTo } from "./connection.ts";
import type { Statements } from "./connection.ts";
import { Unreadable } from "./errors.ts";
import { capsColumn } from "./routes.ts";
import { seqOfId } from "./rows.ts";
import { isKnownState, readOrTell } from "./unreadable.ts";

const routeColumns = ["r.queue", "r.name", capsColumn];

function routeShown(queue: string, name: string, caps: string): ReturnType<typeof shownRoute> {
  return shownRoute({ queue, name, caps: caps === "[]" ? [] : (JSON.parse(caps) as string[]) });
}

/** Input: seq. Answer: everything about a job that is shown, as far as this kind of job has it. */
function openSource(table: string, isKept: (field: JobField) => boolean) {
  const isShown = (field: JobField): boolean => field.isOwn !== true && (isSpecField(field) || isKept(field));
  const names = fieldNames(isShown);
  const base = initialValues((field) => field.isOwn !== true && !isShown(field));
  const read = rowReader(names, { from: routeColumns.length, base });
  const sql = `SELECT ${routeColumns.join(", ")}, ${columnList(names, fromJob)}
    FROM ${table} j JOIN millrace_spec s ON s.seq = j.seq
    JOIN millrace_route r ON r.number = j.route WHERE j.seq = ?`;
  const readOne = (statements: Statements, seq: number): JobRecord | null => {
    const values = statements(sql).get(seq);
    if (values === undefined) return null;
    const [queue, name, caps] = values as [queue: string, name: string, caps: string];
    const row = read(values);
    const shown = { state: stateOfCode(row.state), cancelAsked: row.cancelAsked === 1 };
    return { ...row, ...shown, ...routeShown(queue, name, caps) };
  };
  return (statements: Statements, seq: number) => readOrTell("job", seq, () => readOne(statements, seq));
}

const readLive = openSource("millrace_job", isLiveField);
const readFinished = openSource("millrace_history", isFinishedField);

/** The job with a seq that was found in the same transaction. */
export function readRecord(statements: Statements, seq: number): JobRecord {
  const record = readLive(statements, seq) ?? readFinished(statements, seq);
  if (record === null) throw new Unreadable("job", seq, "its spec, its row or its route is missing");
  return record;
}

export function readJobs(statements: Statements, ids: readonly string[]): (JobRecord | null)[] {
  return ids.map((id) => {
    const seq = seqOfId(statements, id);
    return seq === null ? null : readRecord(statements, seq);
  });
}

/** No input. Answer: every count that is not zero, by route and state. */
const readTallies = `SELECT ${routeColumns.join(", ")}, t.state, t.count
  FROM millrace_tally t JOIN millrace_route r ON r.number = t.route
  WHERE t.count <> 0 AND t.${isKnownState} ORDER BY r.queue, r.name, r.caps, t.state`;

export function tallyJobs(statements: Statements): Tally[] {
  type Row = [queue: string, name: string, caps: string, state: number, count: number];
  const rows = statements(readTallies).all() as Row[];
  return rows.map(([queue, name, caps, state, count]) => ({
    ...routeShown(queue, name, caps),
    state: stateOfCode(state),
    count,
  }));
}

/** Inputs: number to go on after, limit. */
const readRecords = `SELECT number, at, body FROM millrace_feed WHERE number > ? ORDER BY number ${limitTo("?")}`;
/** No input. Answer: the number of the newest record. */
const readEnd = "SELECT max(number) FROM millrace_feed";

export function readFeed(statements: Statements, { after, max }: FeedRequest): FeedAnswer {
  if (after < 0)
    return { records: [], cursor: (statements(readEnd).get() as [number: number | null])[0] ?? 0 };
  const rows = statements(readRecords).all(after, max) as [number: number, at: number, body: string][];
  const records = rows.map(([number, at, body]) => {
    const events = readOrTell("feed", number, () => readEvents(body));
    return { number, at, events };
  });
  return { records, cursor: records.at(-1)?.number ?? after };
}

/** Inputs: seq, number to go on after, limit. */
const readLines = `SELECT number, at, body FROM millrace_trail
  WHERE seq = ? AND number > ? ORDER BY number ${limitTo("?")}`;

export function readTrail(
  statements: Statements,
  request: { readonly id: string; readonly after: number; readonly max: number },
): TrailAnswer {
  const seq = seqOfId(statements, request.id);
  const rows =
    seq === null
      ? []
      : (statements(readLines).all(seq, request.after, request.max) as [number, number, string][]);
  const lines = rows.map(([number, at, body]) => ({ number, at, body }));
  return { lines, cursor: lines.at(-1)?.number ?? request.after };
}
