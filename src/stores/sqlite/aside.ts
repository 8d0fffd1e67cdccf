/**
 * Records set aside: what cannot be read leaves every table, index and count in one step and is kept as it was found,
 * for an operator to see and to remove. Its neighbours go on as if it had never been there. Nothing is told of it.
 *
 *  ref   job:<seq> for the record of a job        feed:<number> for a feed record, which goes on without events
 *
 * Rare and slow: tags and keys are searched by seq without an index, and all tallies are counted anew, because a state
 * that is unknown does not say which count it was in.
 */
import type { AsideAnswer, AsideRecord } from "../../store/operations.ts";
import { recountTallies } from "./audit-tallies.ts";
import { finishedNames, liveNames, specNames } from "./columns.ts";
import { columnOf } from "../../store/job-fields.ts";
import type { JobFieldName } from "../../store/job-fields.ts";
import { limitTo } from "./connection.ts";
import type { Statements } from "./connection.ts";
import type { Step } from "./step.ts";
import { findUnreadable } from "./unreadable.ts";

/** A record that cannot be read. The seq is a text: it may itself be more than a number of JavaScript. */
export interface Found {
  readonly seq: string;
  readonly why: string;
}

/** The lowest and the highest seq there can be. */
export const seqRange = { after: "-9223372036854775808", last: "9223372036854775807" } as const;

/** Sets aside what cannot be read between these seqs, the first exclusive. Answers how many records that were. */
export function setAsideUnreadable(
  step: Step,
  range: { readonly after: string; readonly last: string } = seqRange,
): number {
  const rows = step.statements(findUnreadable).all(range) as [seq: string, why: string][];
  setAside(
    step,
    rows.map(([seq, why]) => ({ seq, why })),
  );
  return rows.length;
}

/** Inputs: ref, id, why, time, what was found. */
const putAside = "INSERT OR REPLACE INTO millrace_aside (ref, id, why, at, body) VALUES (?, ?, ?, ?, ?)";
/** Input: a JSON list of seqs as texts. */
const drops = ["job", "history", "spec", "trail", "tag", "unique"].map(
  (table) => `DELETE FROM millrace_${table} WHERE seq IN (SELECT CAST(value AS INTEGER) FROM json_each(?))`,
);

export function setAside({ statements, now }: Step, found: readonly Found[]): void {
  if (found.length === 0) return;
  for (const { seq, why } of found)
    statements(putAside).run(`job:${seq}`, readId(statements, seq), why, now, readFound(statements, seq));
  const seqs = JSON.stringify(found.map(({ seq }) => seq));
  for (const drop of drops) statements(drop).run(seqs);
  recountTallies(statements);
}

/** Input: seq as a text, three times. Answer: the id, where one of the rows still tells it. */
const findId = `SELECT id FROM (${["spec", "job", "history"]
  .map((table) => `SELECT id FROM millrace_${table} WHERE seq = CAST(? AS INTEGER)`)
  .join(" UNION ALL ")}) WHERE typeof(id) = 'text' LIMIT 1`;

function readId(statements: Statements, seq: string): string | null {
  const row = statements(findId).get(seq, seq, seq) as [id: string] | undefined;
  return row === undefined ? null : row[0];
}

/** Input: seq as a text. Answer: each column as an SQL literal, which any value has. */
const sources = [
  openSource("millrace_job", liveNames),
  openSource("millrace_history", finishedNames),
  openSource("millrace_spec", specNames),
];

function openSource(table: string, names: readonly JobFieldName[]) {
  const columns = names.map((name) => `quote(${columnOf(name)})`).join(", ");
  const sql = `SELECT ${columns} FROM ${table} WHERE seq = CAST(? AS INTEGER)`;
  return { table, names, sql };
}

function readFound(statements: Statements, seq: string): string {
  const lines = sources.map(({ table, names, sql }) => {
    const row = statements(sql).get(seq) as string[] | undefined;
    if (row === undefined) return `${table}: no row`;
    return `${table}: ${names.map((name, at) => `${name} ${row[at]}`).join(", ")}`;
  });
  return lines.join("\n");
}

/** Inputs: number, time, the rest. Answer: none; the feed record goes on without events. */
const putFeedAside = `INSERT OR REPLACE INTO millrace_aside (ref, id, why, at, body)
  SELECT 'feed:' || number, NULL, @why, @now, quote(body) FROM millrace_feed WHERE number = @number`;
const emptyFeed = "UPDATE millrace_feed SET body = '' WHERE number = ?";

export function setFeedAside({ statements, now }: Step, number: number, why: string): void {
  statements(putFeedAside).run({ number, why, now });
  statements(emptyFeed).run(number);
}

/** As an operator reads it. The store keeps it whole. */
const textCharsMax = 4000;
/** Inputs: characters, ref to go on after, limit. */
const readPage = `SELECT ref, id, why, at, substr(body, 1, ?) FROM millrace_aside
  WHERE ref > ? ORDER BY ref ${limitTo("?")}`;

export function readAside(
  { statements }: Step,
  { after, max }: { readonly after: string | null; readonly max: number },
): AsideAnswer {
  const rows = statements(readPage).all(textCharsMax, after ?? "", max + 1);
  const records = rows.slice(0, max).map((row): AsideRecord => {
    const [ref, id, why, at, text] = row as [string, string | null, string, number, string];
    return { ref, id, why, at, text };
  });
  return { records, cursor: rows.length > max ? (records.at(-1)?.ref ?? null) : null };
}

/** Input: ref. */
const dropAside = "DELETE FROM millrace_aside WHERE ref = ?";

export function removeAside({ statements }: Step, refs: readonly string[]): number {
  return refs.reduce((removed, ref) => removed + Number(statements(dropAside).run(ref).changes), 0);
}
