/**
 * Unreadable records: what cannot be read leaves every table, index and count in one step and is kept as it was found,
 * for an operator to see and to delete. Its neighbours go on as if it had never been there. Nothing is emitted about
 * it.
 *
 *  ref   job:<seq> for the record of a job        feed:<number> for a feed record, which goes on without events
 *
 * Rare and slow: tags and keys are searched by seq without an index, and all state counts are counted anew, because a
 * state that is unknown does not say which count it was in.
 */
import type { UnreadableAnswer, UnreadableRecord } from "../../../store/upkeep.ts";
import { repairLanes } from "./audit-lanes.ts";
import { recountStates } from "./audit-counts.ts";
import { finishedNames, liveNames, specNames } from "../connection/columns.ts";
import { columnOf } from "../../../store/job-fields.ts";
import { limitTo } from "../connection/connection.ts";
import type { Step } from "../connection/transaction.ts";
import { findUnreadable } from "./find-unreadable.ts";
import { sql } from "../../../store/sql.ts";

/** A record that cannot be read, and why. The seq is a text: it may itself be more than a number of JavaScript. */
type Found = readonly [seq: string, why: string];

/** The lowest and the highest seq there can be. */
export const seqRange = { after: "-9223372036854775808", last: "9223372036854775807" } as const;

/**
 * Keeps as unreadable what cannot be read between these seqs, the first exclusive. Answers how many records that were.
 */
export function keepAllUnreadable(
  step: Step,
  range: { readonly after: string; readonly last: string } = seqRange,
): number {
  const found = step.statements(findUnreadable).all(range) as Found[];
  keepUnreadable(step, found);
  return found.length;
}

const ofRecord = "seq = CAST(@seq AS INTEGER)";
const tables = { job: liveNames, history: finishedNames, spec: specNames };

/** The id, if one of the rows still has it. */
const foundId = sql`SELECT id FROM (${Object.keys(tables)
  .map((table) => `SELECT id FROM millrace_${table} WHERE ${ofRecord}`)
  .join(" UNION ALL ")}) WHERE typeof(id) = 'text' LIMIT 1`;

/** The rows as a text, with each value as an SQL literal, which any value has. */
const foundText = Object.entries(tables)
  .map(([table, names]) => {
    const fields = names.map((name) => `'${name} ' || quote(${columnOf(name)})`).join(" || ', ' || ");
    return `'millrace_${table}: ' || ifnull((SELECT ${fields} FROM millrace_${table} WHERE ${ofRecord}), 'no row')`;
  })
  .join(" || char(10) || ");

/** Inputs: seq as a text, why, time. */
const insertUnreadable = sql`INSERT OR REPLACE INTO millrace_unreadable (ref, id, why, at, body)
  SELECT 'job:' || @seq, (${foundId}), @why, @now, ${foundText}`;
/** Input: a JSON list of seqs as texts. */
const drops = [...Object.keys(tables), "log", "journal", "past_key", "slip", "tag", "unique"].map(
  (table) => `DELETE FROM millrace_${table} WHERE seq IN (SELECT CAST(value AS INTEGER) FROM json_each(?))`,
);

export function keepUnreadable(step: Step, found: readonly Found[]): void {
  if (found.length === 0) return;
  const { statements, now } = step;
  for (const [seq, why] of found) statements(insertUnreadable).run({ seq, why, now });
  const seqs = JSON.stringify(found.map(([seq]) => seq));
  for (const drop of drops) statements(drop).run(seqs);
  recountStates(statements);
  repairLanes(step);
}

/** Inputs: number, why, time. */
const insertUnreadableFeed = sql`INSERT OR REPLACE INTO millrace_unreadable (ref, id, why, at, body)
  SELECT 'feed:' || number, NULL, @why, @now, quote(body) FROM millrace_feed WHERE number = @number`;
const emptyFeed = "UPDATE millrace_feed SET body = '' WHERE number = ?";

export function keepUnreadableFeed({ statements, now }: Step, number: number, why: string): void {
  statements(insertUnreadableFeed).run({ number, why, now });
  statements(emptyFeed).run(number);
}

/** As an operator reads it. The store keeps it whole. */
const textCharsMax = 4000;
/** Inputs: characters, ref to go on after, limit. */
const readPage = sql`SELECT ref, id, why, at, substr(body, 1, ?) FROM millrace_unreadable
  WHERE ref > ? ORDER BY ref ${limitTo("?")}`;

export function readUnreadable(
  { statements }: Step,
  { after, max }: { readonly after: string | null; readonly max: number },
): UnreadableAnswer {
  const rows = statements(readPage).all(textCharsMax, after ?? "", max + 1);
  const records = rows.slice(0, max).map((row): UnreadableRecord => {
    const [ref, id, why, at, text] = row as [string, string | null, string, number, string];
    return { ref, id, why, at, text };
  });
  return { records, cursor: rows.length > max ? (records.at(-1)?.ref ?? null) : null };
}

/** Input: ref. */
const deleteOne = "DELETE FROM millrace_unreadable WHERE ref = ?";

export function deleteUnreadable({ statements }: Step, refs: readonly string[]): number {
  return refs.reduce((deleted, ref) => deleted + Number(statements(deleteOne).run(ref).changes), 0);
}
