/**
 * The journals of durable runs (rule R2; store/rules/journal.ts has what entries do to the row of their job). Entries
 * are clustered by run and number, so that an append and a page are each one place of the tree.
 *
 *  millrace_journal   seq, number | at, key, body, unread, is_foreign       unique (seq, key)
 *
 * Own entries are collected and written as a set without looking their keys up: only a repeat after a lost answer has
 * known keys. If a row was passed over, the set is taken back and its entries are appended one by one.
 */
import type { EntryPut } from "../../../store/records.ts";
import type { Unread } from "../../../store/rules/change.ts";
import { openRowSets, readValue, runRowSets } from "../connection/connection.ts";
import type { SqlValue, Statements } from "../connection/connection.ts";
import { isUnread } from "../connection/schema.ts";
import type { Step } from "../connection/transaction.ts";
import { sql } from "../../../store/sql.ts";

/** Input: seq. Answer: the number of its last entry; null without one. */
const lastNumber = "SELECT max(number) FROM millrace_journal WHERE seq = ?";

/** The last number of a journal; 0 for an empty one. */
export function lastOf(statements: Statements, seq: number): number {
  return readValue<number>(statements, lastNumber, seq) ?? 0;
}

/** Input: a JSON list of seqs. Answer: of each the number of its last entry. */
const lastNumbers = sql`SELECT value, (SELECT max(number) FROM millrace_journal e WHERE e.seq = value)
  FROM json_each(?)`;

export function lastsOf(statements: Statements, seqs: readonly number[]): Map<number, number> {
  if (seqs.length === 0) return new Map();
  const [only] = seqs as readonly [number];
  // The journals of many at once take their list as JSON, which costs more than the look-up of one.
  if (seqs.length === 1) return new Map([[only, lastOf(statements, only)]]);
  const rows = statements(lastNumbers).all(JSON.stringify(seqs)) as [seq: number, last: number | null][];
  return new Map(rows.map(([seq, last]) => [seq, last ?? 0]));
}

/** Inputs: seq, key. Answer: a row if the journal has an entry with it. */
const findKey = "SELECT 1 FROM millrace_journal WHERE seq = ? AND key = ?";
/** Inputs: seq, key. Answer: a row if the journal had an entry of others with it in an earlier round. */
const findPastKey = "SELECT 1 FROM millrace_past_key WHERE seq = ? AND key = ?";

/** Whether the journal refuses an entry of others with this key. */
export function refusesKey(statements: Statements, seq: number, key: string): boolean {
  return [findKey, findPastKey].some((find) => statements(find).get(seq, key) !== undefined);
}

/** Input: seq. Answer: how many entries nobody has read, and their size. */
const countUnread = sql`SELECT count(*), ifnull(sum(unread), 0)
  FROM millrace_journal INDEXED BY millrace_journal_unread WHERE seq = ? AND ${isUnread}`;

export function unreadOf(statements: Statements, seq: number): Unread {
  const [count, size] = statements(countUnread).get(seq) as [count: number, size: number];
  return { count, size };
}

const columns = "seq, number, at, key, body, unread, is_foreign";
const isOwn = 0;
const isForeign = 1;
/** Inputs: a row. */
const addForeign = `INSERT INTO millrace_journal (${columns}) VALUES (?, ?, ?, ?, ?, ?, ${isForeign})`;

/** An entry of others. Guard: its key was looked up in the same transaction. */
export function appendForeign({ statements, now }: Step, seq: number, put: EntryPut): void {
  const { key, body, unread = 0, reads } = put;
  const number = lastOf(statements, seq) + 1;
  statements(addForeign).run(seq, number, now, key, body, unread);
  readEntries(statements, seq, reads, number);
}

/** In a set, `at` is the number of the row. */
const perRow = "seq, number, accepted_at, key, body, unread";
/** Inputs: these of each row. A row whose key is known is passed over. */
const addOwn = openRowSets(
  perRow,
  (set) => sql`WITH ${set} INSERT INTO millrace_journal (${columns})
    SELECT ${perRow}, ${isOwn} FROM e WHERE true
    ON CONFLICT (seq, key) DO NOTHING`,
  sql`INSERT INTO millrace_journal (${columns}) VALUES (?, ?, ?, ?, ?, ?, ${isOwn})
    ON CONFLICT (seq, key) DO NOTHING`,
);
const rowWidth = perRow.split(", ").length;
/** Inputs: seq, number. */
const takeBack = "DELETE FROM millrace_journal WHERE seq = ? AND number > ?";
/** Inputs: seq, a JSON list of numbers. */
const markRead = sql`UPDATE millrace_journal SET unread = 0
  WHERE seq = ? AND unread <> 0 AND number IN (SELECT value FROM json_each(?))`;

/** Own entries of one run. */
export interface OwnEntries {
  readonly seq: number;
  readonly puts: readonly EntryPut[];
}

export interface Appended {
  /** Those that were not passed over. */
  readonly entries: readonly EntryPut[];
  /** The last number of the journal. */
  readonly last: number;
}

/** Appends own entries of runs, in order. A run may occur several times. Guard: each is leased. */
export function appendOwn(
  step: Step,
  runs: readonly OwnEntries[],
  lasts: ReadonlyMap<number, number>,
): Appended[] {
  const { statements, now } = step;
  const ends = new Map(lasts);
  const values: SqlValue[] = [];
  let count = 0;
  const appended = runs.map(({ seq, puts }): Appended => {
    let last = ends.get(seq) ?? 0;
    for (const { key, body, unread = 0 } of puts) values.push(seq, ++last, now, key, body, unread);
    count += puts.length;
    ends.set(seq, last);
    return { entries: puts, last };
  });
  const written = runRowSets(statements, addOwn, { values, width: rowWidth });
  if (written < count) return appendSingly(step, runs, lasts);
  for (let at = 0; at < runs.length; at++) {
    const { seq, puts } = runs[at] as OwnEntries;
    let number = (appended[at] as Appended).last - puts.length;
    for (const { reads } of puts) readEntries(statements, seq, reads, ++number);
  }
  return appended;
}

/** The same after some were passed over: the numbers of those that followed them have gaps. */
function appendSingly(
  step: Step,
  runs: readonly OwnEntries[],
  lasts: ReadonlyMap<number, number>,
): Appended[] {
  const { statements, now } = step;
  for (const seq of new Set(runs.map((run) => run.seq))) statements(takeBack).run(seq, lasts.get(seq) ?? 0);
  const ends = new Map(lasts);
  return runs.map(({ seq, puts }) => {
    let last = ends.get(seq) ?? 0;
    const entries = puts.filter(({ key, body, unread = 0, reads }) => {
      const values = [seq, last + 1, now, key, body, unread];
      if (runRowSets(statements, addOwn, { values, width: rowWidth }) === 0) return false;
      last += 1;
      readEntries(statements, seq, reads, last);
      return true;
    });
    ends.set(seq, last);
    return { entries, last };
  });
}

/** @param by the number of the entry that reads: what came later in the call is not read by it. */
function readEntries(statements: Statements, seq: number, reads: readonly number[] = [], by: number): void {
  const read = reads.filter((number) => number <= by);
  if (read.length > 0) statements(markRead).run(seq, JSON.stringify(read));
}
