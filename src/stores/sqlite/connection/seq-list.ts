/**
 * One statement for many rows by seq. Seqs that follow each other without a gap, as in a first-in first-out queue,
 * are a range: 0.4 us less per row than a list. The statement has no WHERE; its own inputs are named.
 */
import type { NamedValues, SqlValue, Statements } from "./connection.ts";

const oneSeq = "= ?";
const seqRange = "BETWEEN ? AND ?";
const seqList = "IN (SELECT value FROM json_each(?))";

/** @param column what has these values, behind any other condition: lanes have numbers instead of seqs. */
export function runOnSeqs(
  statements: Statements,
  sql: string,
  seqs: readonly number[],
  named?: NamedValues,
  column = "seq",
): void {
  if (seqs.length === 0) return;
  const [among, ...values] = amongSeqs(seqs);
  const statement = statements(`${sql} WHERE ${column} ${among}`);
  if (named === undefined) statement.run(...values);
  else statement.run(named, ...values);
}

/** The rows of these seqs, in any order. No named inputs. */
export function readOnSeqs(statements: Statements, sql: string, seqs: readonly number[]): unknown[] {
  if (seqs.length === 0) return [];
  const [among, ...values] = amongSeqs(seqs);
  return statements(`${sql} WHERE seq ${among}`).all(...values);
}

function amongSeqs(seqs: readonly number[]): readonly [among: string, ...values: SqlValue[]] {
  const [first] = seqs as readonly [number];
  if (seqs.length === 1) return [oneSeq, first];
  let lowest = first;
  let highest = first;
  for (let at = 1; at < seqs.length; at++) {
    const seq = seqs[at] as number;
    if (seq < lowest) lowest = seq;
    if (seq > highest) highest = seq;
  }
  // Seqs of one call are distinct.
  if (highest - lowest + 1 === seqs.length) return [seqRange, lowest, highest];
  return [seqList, JSON.stringify(seqs)];
}
