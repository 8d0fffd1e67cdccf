/**
 * One statement for many rows by seq. Seqs that follow each other without a gap, as in a first-in first-out queue,
 * are a range: 0.4 us less per row than a list. The statement has no WHERE; its own inputs are named.
 */
import type { NamedValues, SqlValue, Statements } from "./connection.ts";

const oneSeq = "WHERE seq = ?";
const seqRange = "WHERE seq BETWEEN ? AND ?";
const seqList = "WHERE seq IN (SELECT value FROM json_each(?))";

export function runOnSeqs(
  statements: Statements,
  sql: string,
  seqs: readonly number[],
  named?: NamedValues,
): void {
  if (seqs.length === 0) return;
  const [among, ...values] = amongSeqs(seqs);
  const statement = statements(`${sql} ${among}`);
  if (named === undefined) statement.run(...values);
  else statement.run(named, ...values);
}

/** The rows of these seqs, in any order. No named inputs. */
export function readOnSeqs(statements: Statements, sql: string, seqs: readonly number[]): unknown[] {
  if (seqs.length === 0) return [];
  const [among, ...values] = amongSeqs(seqs);
  return statements(`${sql} ${among}`).all(...values);
}

function amongSeqs(seqs: readonly number[]): readonly [among: string, ...values: SqlValue[]] {
  const [first] = seqs as readonly [number];
  if (seqs.length === 1) return [oneSeq, first];
  let lowest = first;
  let highest = first;
  for (const seq of seqs) {
    if (seq < lowest) lowest = seq;
    if (seq > highest) highest = seq;
  }
  // Seqs of one call are distinct.
  if (highest - lowest + 1 === seqs.length) return [seqRange, lowest, highest];
  return [seqList, JSON.stringify(seqs)];
}
