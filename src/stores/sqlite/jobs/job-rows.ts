/**
 * Finding jobs: by id or seq, live or finished, as the whole row that the rules read and change. A row that cannot be
 * read is reported as such (find-unreadable.ts).
 */
import { stateOfCode } from "../../../model/job/job-state.ts";
import { fieldNames, isFinishedField, isLiveField } from "../../../store/job-fields.ts";
import type { JobField, JobFieldName, JobRow } from "../../../store/job-fields.ts";
import { initialValues } from "../../../store/rules/advance.ts";
import type { Laned } from "../../../store/rules/gates/lane-change.ts";
import { columnList, fromJob, liveNames, rowReader, specNames } from "../connection/columns.ts";
import type { Picked } from "../connection/columns.ts";
import { readValue } from "../connection/connection.ts";
import type { Statements } from "../connection/connection.ts";
import { Unreadable } from "../connection/errors.ts";
import { readOnSeqs } from "../connection/seq-list.ts";
import { readOrReport } from "../upkeep/find-unreadable.ts";
import { sql } from "../../../store/sql.ts";

/** Input: seq. Answer: the whole row, as far as this kind of job has it. */
function openSource(table: string, isKept: (field: JobField) => boolean) {
  const names = [...specNames, ...fieldNames(isKept)];
  const read = rowReader(
    names,
    initialValues((field) => field.home !== "spec" && !isKept(field)),
  );
  const text = sql`
    SELECT ${columnList(names, fromJob)}
    FROM ${table} j JOIN millrace_spec s ON s.seq = j.seq WHERE j.seq = ?`;
  return (statements: Statements, seq: number): JobRow | null =>
    readOrReport("job", seq, () => {
      const values = statements(text).get(seq);
      const row = values === undefined ? null : read(values);
      if (row !== null) stateOfCode(row.state);
      return row;
    });
}

/** Reads these fields of live jobs by seq; those that are not live are left out. */
export function liveReader<Name extends JobFieldName>(names: readonly Name[], base: Partial<JobRow> = {}) {
  /** Inputs: the seqs. */
  const text = `SELECT ${columnList(names)} FROM millrace_job`;
  const read = rowReader(names, base);
  return (statements: Statements, seqs: readonly number[]): Picked<Name>[] =>
    readOnSeqs(statements, text, seqs).map(read);
}

const readStates = liveReader(
  liveNames,
  initialValues(({ home }) => home === "end"),
);

/**
 * Live jobs by seq, as far as a settle needs them: what their specs say is not read, and undefined. A rule that edits
 * a spec gives the new values and never looks at the old ones.
 */
export function readLiveStates(statements: Statements, seqs: readonly number[]): JobRow[] {
  const rows = readStates(statements, seqs) as JobRow[];
  for (const { seq, state } of rows) readOrReport("job", seq, () => stateOfCode(state));
  return rows;
}

const laneNames = [
  ...(["seq", "laneKey", "laneStep", "laneGates", "route", "rank", "state", "timerAt", "keepsLane"] as const),
] as const;
const readLaned = rowReader(laneNames);
/** Input: a JSON list of seqs. Answer: of live jobs with a lane what their lanes have to know. */
const ofLanes = sql`SELECT ${columnList(laneNames, fromJob)} FROM millrace_job j JOIN millrace_spec s ON s.seq = j.seq
  WHERE j.seq IN (SELECT value FROM json_each(?)) AND s.lane_key IS NOT NULL`;

/** The jobs with lanes among these live ones, by seq, as they stand. */
export function readLanes(statements: Statements, seqs: readonly number[]): Map<number, Laned> {
  const jobs = statements(ofLanes).all(JSON.stringify(seqs)).map(readLaned) as Laned[];
  return new Map(jobs.map((job) => [job.seq, job]));
}

/** Inputs: the seqs. */
const gatesOf = "SELECT lane_gates FROM millrace_spec";

/** The gates of the keys of these jobs, of those that have any. */
export function readLaneGates(statements: Statements, seqs: readonly number[]): Pick<Laned, "laneGates">[] {
  const rows = readOnSeqs(statements, gatesOf, seqs) as [gates: string | null][];
  return rows.flatMap(([gates]) => (gates === null ? [] : [{ laneGates: JSON.parse(gates) as string[] }]));
}

export type Member = Pick<JobRow, "flow" | "edges">;
/** Inputs: the seqs. */
const edgesOf = sql`SELECT ${columnList(["seq", "flow", "edges"])} FROM millrace_spec`;

/** The flows and edges of members, by seq. Those of one flow with the same edges are one object. */
export function readEdges(statements: Statements, seqs: readonly number[]): Map<number, Member> {
  const members = new Map<number, Member>();
  let [lastFlow, lastEdges, last]: [string | null, string | null, Member | null] = [null, null, null];
  for (const row of readOnSeqs(statements, edgesOf, seqs)) {
    const [seq, flow, edges] = row as [number, string | null, string | null];
    if (flow === null) continue;
    if (last === null || flow !== lastFlow || edges !== lastEdges) {
      last = { flow, edges: edges === null ? null : (JSON.parse(edges) as string[]) };
      [lastFlow, lastEdges] = [flow, edges];
    }
    members.set(seq, last);
  }
  return members;
}

export const readLive = openSource("millrace_job", isLiveField);
const readFinished = openSource("millrace_history", isFinishedField);

function readRow(statements: Statements, seq: number): JobRow | null {
  return readLive(statements, seq) ?? readFinished(statements, seq);
}

/** A job that is there: its seq was found in the same transaction. */
export function readKept(statements: Statements, seq: number): JobRow {
  const row = readRow(statements, seq);
  if (row === null) throw new Unreadable("job", seq, "it is neither live nor finished");
  return row;
}

/** Input: id. Answer: its seq, live or finished. */
const seqOf = "SELECT seq FROM millrace_spec WHERE id = ?";

export function seqOfId(statements: Statements, id: string): number | null {
  return readValue(statements, seqOf, id);
}

/** The job that this id and seq name together. Another seq under the same id is another job. */
export function readNamed(
  statements: Statements,
  { id, seq }: { readonly id: string; readonly seq: number },
): JobRow | "stale" | "gone" {
  const row = readRow(statements, seq);
  if (row !== null && row.id === id) return row;
  return seqOfId(statements, id) === null ? "gone" : "stale";
}
