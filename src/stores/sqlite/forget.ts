/**
 * Forgetting jobs that are kept nowhere any more: their spec goes, with the tags and log lines that hang on it. Live and history rows are
 * the caller's, and so is a unique key, which is found through the spec and must be freed before.
 */
import type { Statements } from "./connection.ts";
import { runOnSeqs } from "./seq-list.ts";

/** Input: a JSON list of seqs. Answer: those that have tags. */
const readTagged =
  "SELECT seq FROM millrace_spec WHERE tags IS NOT NULL AND seq IN (SELECT value FROM json_each(?))";
/** Inputs: seq twice. */
const dropTags = `DELETE FROM millrace_tag
  WHERE seq = ? AND tag IN (SELECT value FROM json_each((SELECT tags FROM millrace_spec WHERE seq = ?)))`;
/** Inputs: the seqs. */
const dropTrails = "DELETE FROM millrace_trail";
const dropSpecs = "DELETE FROM millrace_spec";

export function forgetJobs(statements: Statements, seqs: readonly number[]): void {
  if (seqs.length === 0) return;
  const tagged = statements(readTagged).all(JSON.stringify(seqs)) as [seq: number][];
  for (const [seq] of tagged) forgetTags(statements, seq);
  runOnSeqs(statements, dropTrails, [], seqs);
  runOnSeqs(statements, dropSpecs, [], seqs);
}

export function forgetTags(statements: Statements, seq: number): void {
  statements(dropTags).run(seq, seq);
}
