/** Reading journals of durable runs, live or finished: a page of entries, and the slips. */
import type { JournalAnswer, JournalRead } from "../../../store/operations.ts";
import type { Entry } from "../../../store/records.ts";
import { isLeased } from "../../../store/rules/guard.ts";
import { limitTo } from "../connection/connection.ts";
import type { Statements } from "../connection/connection.ts";
import { Unreadable } from "../connection/errors.ts";
import type { Step } from "../connection/transaction.ts";
import { seqOfId } from "../jobs/job-rows.ts";
import { sql } from "../../../store/sql.ts";
import { lastOf } from "./entries.ts";
import { readSlips } from "./slips.ts";

/** Input: seq. Answer: of a live or finished job what a read of its journal has to know. */
const readHead = sql`SELECT state, fence, durable FROM millrace_job WHERE seq = @seq
  UNION ALL SELECT state, fence, durable FROM millrace_history WHERE seq = @seq`;
/** Inputs: seq, number to go on after, limit. */
const readEntries = sql`SELECT number, at, key, body FROM millrace_journal
  WHERE seq = ? AND number > ? ORDER BY number ${limitTo("?")}`;

/** Characters of the entries of a call. What is left of a journal then comes one entry at a time. */
const callCharsMax = 16 * 2 ** 20;
const chunkMax = 64;

export function readJournal(step: Step, reads: readonly JournalRead[]): JournalAnswer[] {
  let charsLeft = callCharsMax;
  return reads.map((read) => {
    const answer = readOne(step, read, charsLeft);
    if (answer.kind === "ok") charsLeft -= charsOf(answer.entries);
    return answer;
  });
}

function readOne({ statements, now }: Step, read: JournalRead, charsMax: number): JournalAnswer {
  const { id, after, max, lease } = read;
  const seq = seqOfId(statements, id);
  if (seq === null) return { kind: "gone" };
  const row = statements(readHead).get({ seq }) as
    | [state: number, fence: number, durable: number]
    | undefined;
  if (row === undefined) throw new Unreadable("job", seq, "it is neither live nor finished");
  const [state, fence, durable] = row;
  if (lease !== undefined && !isLeased({ id, seq, state, fence }, { id, ...lease })) return { kind: "stale" };
  const entries = readPage(statements, { seq, after, max, charsMax });
  return {
    kind: "ok",
    entries,
    last: lastOf(statements, seq),
    slips: readSlips(statements, seq),
    durable,
    now,
  };
}

interface Page {
  readonly seq: number;
  readonly after: number;
  readonly max: number;
  readonly charsMax: number;
}

function readPage(statements: Statements, { seq, after, max, charsMax }: Page): Entry[] {
  const entries: Entry[] = [];
  const wanted = charsMax > 0 ? max : Math.min(1, max);
  for (let chars = 0; entries.length < wanted && (entries.length === 0 || chars < charsMax);) {
    const size = Math.min(chunkMax, wanted - entries.length);
    const rows = statements(readEntries).all(seq, entries.at(-1)?.number ?? after, size) as EntryRow[];
    const chunk = rows.map(([number, at, key, body]): Entry => ({ number, at, key, body }));
    entries.push(...chunk);
    if (chunk.length < size) break;
    chars += charsOf(chunk);
  }
  return entries;
}

type EntryRow = readonly [number: number, at: number, key: string, body: string];

function charsOf(entries: readonly Entry[]): number {
  return entries.reduce((sum, { body }) => sum + body.length, 0);
}
