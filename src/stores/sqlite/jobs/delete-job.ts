/**
 * What hangs on a job's spec: its tags, which are listed apart for the look-up, its log lines, and the journal of a
 * durable run. Forgetting a job takes all of it. Live and history rows are the caller's, and so is a unique key, which
 * is found through the spec and must be freed before.
 */
import { dropJournals } from "../journals/rounds.ts";
import type { Statements } from "../connection/connection.ts";
import { runOnSeqs } from "../connection/seq-list.ts";
import { sql } from "../../../store/sql.ts";

/** Inputs: first and last seq. */
const listTags = sql`INSERT OR IGNORE INTO millrace_tag (tag, seq)
  SELECT t.value, s.seq FROM millrace_spec s, json_each(s.tags) t
  WHERE s.tags IS NOT NULL AND s.seq BETWEEN ? AND ?`;
/** Inputs: a tag, first and last seq of new live jobs. */
const listTag = sql`INSERT OR IGNORE INTO millrace_tag (tag, seq)
  SELECT ?, seq FROM millrace_job WHERE seq BETWEEN ? AND ?`;
/** Input: a JSON list of seqs. What cannot be read is left to the audit. */
const unlistTags = sql`DELETE FROM millrace_tag WHERE (tag, seq) IN
  (SELECT t.value, s.seq FROM millrace_spec s, json_each(s.tags) t
  WHERE json_valid(s.tags) AND s.seq IN (SELECT value FROM json_each(?)))`;
/** Inputs: the seqs. */
const dropLogs = "DELETE FROM millrace_log";
const dropSpecs = "DELETE FROM millrace_spec";

/** Lists the tags of the specs from the first to the last of these seqs. */
export function addTags(statements: Statements, first: number, last: number): void {
  statements(listTags).run(first, last);
}

/** The same of live jobs that all have these tags. */
export function shareTags(
  statements: Statements,
  tags: readonly string[],
  first: number,
  last: number,
): void {
  for (const tag of tags) statements(listTag).run(tag, first, last);
}

export function dropTags(statements: Statements, seqs: readonly number[]): void {
  statements(unlistTags).run(JSON.stringify(seqs));
}

/** @param withJournals those of them that have one. */
export function deleteJobs(
  statements: Statements,
  seqs: readonly number[],
  withJournals: readonly number[] = [],
): void {
  if (seqs.length === 0) return;
  dropTags(statements, seqs);
  runOnSeqs(statements, dropLogs, seqs);
  dropJournals(statements, withJournals);
  runOnSeqs(statements, dropSpecs, seqs);
}
