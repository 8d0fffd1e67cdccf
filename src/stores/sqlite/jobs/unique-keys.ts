/**
 * Who holds a unique key (rule R8). An entry goes with the job that holds it, as `holds` of its row says, or by time
 * (`held_until`), whatever becomes of the job: see store/rules/unique-holds.ts.
 */
import type { JobRow } from "../../../store/job-fields.ts";
import { heldUntilOf } from "../../../store/rules/unique-holds.ts";
import type { Statements } from "../connection/connection.ts";
import { sql } from "../../../store/sql.ts";

export interface Holder {
  readonly seq: number;
  readonly id: string;
}

/** Inputs: key, now. Answer: the holder, unless its time has run out. */
const findHolder =
  "SELECT seq, id FROM millrace_unique WHERE key = ? AND (held_until IS NULL OR held_until > ?)";

export function readHolder(statements: Statements, key: string, now: number): Holder | null {
  const row = statements(findHolder).get(key, now) as [seq: number, id: string] | undefined;
  return row === undefined ? null : { seq: row[0], id: row[1] };
}

/** Inputs: key, seq, id, held until. The caller has seen that nobody else holds it. */
const put = "INSERT OR REPLACE INTO millrace_unique (key, seq, id, held_until) VALUES (?, ?, ?, ?)";

export function takeKey(
  statements: Statements,
  { uniqueKey = null, uniqueHold = null, seq, id }: Partial<JobRow> & Pick<JobRow, "seq" | "id">,
  now: number,
): void {
  statements(put).run(uniqueKey, seq, id, heldUntilOf(uniqueHold, now));
}

/** Input: seq twice. Guard: only this job's own entry. */
const free = sql`
  DELETE FROM millrace_unique
  WHERE key = (SELECT unique_key FROM millrace_spec WHERE seq = ?) AND seq = ?`;

export function freeKey(statements: Statements, seq: number): void {
  statements(free).run(seq, seq);
}
