/**
 * Rule R8's book-keeping: who holds a unique key. The row of a live job says which kind of hold it has, so that a job without a key
 * pays nothing at its claim or its end.
 *
 *  hold of the unit   spec.unique_hold   job.holds   the entry goes
 *  "started"          -1                 1           with the first claim, or with the end if that comes first
 *  "end"              -2                 2           with the end
 *  a duration         its milliseconds   0           when it has run out (held_until), whatever becomes of the job
 */
import type { UniqueHold } from "../../model/unique-key.ts";
import type { Statements } from "./connection.ts";

export const holds = { none: 0, untilStarted: 1, untilEnd: 2 } as const;

const startedCode = -1;
const endCode = -2;

export function holdCode(hold: UniqueHold): number {
  return hold === "started" ? startedCode : hold === "end" ? endCode : hold;
}

export function holdsOf(code: number | null): number {
  return code === startedCode ? holds.untilStarted : code === endCode ? holds.untilEnd : holds.none;
}

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
const put = `INSERT INTO millrace_unique (key, seq, id, held_until) VALUES (?, ?, ?, ?)
  ON CONFLICT (key) DO UPDATE SET seq = excluded.seq, id = excluded.id, held_until = excluded.held_until`;

export function takeKey(
  statements: Statements,
  key: string,
  holder: Holder,
  code: number,
  now: number,
): void {
  statements(put).run(key, holder.seq, holder.id, code >= 0 ? now + code : null);
}

/** Input: seq twice. Guard: only this job's own entry. */
const free = `DELETE FROM millrace_unique WHERE key = (SELECT unique_key FROM millrace_spec WHERE seq = ?) AND seq = ?`;

export function freeKey(statements: Statements, seq: number): void {
  statements(free).run(seq, seq);
}
