/**
 * A new round of a durable run (rule R2), and the end of its journal. The keys of entries that others have appended are
 * kept over the rounds, the newest ones, because a webhook may come again at any time.
 *
 *  millrace_past_key   seq, number | key    numbers grow: the newest are the highest
 *  millrace_slip       seq, key | body
 */
import type { ChangeNext, SettleNext } from "../../../model/job/change.ts";
import { storeLimits } from "../../../store/contract-limits.ts";
import type { Statements } from "../connection/connection.ts";
import { isUnread } from "../connection/schema.ts";
import { runOnSeqs } from "../connection/seq-list.ts";
import type { Step } from "../connection/transaction.ts";
import { sql } from "../../../store/sql.ts";

/** Input: seq. A key that was kept before stays where it is. */
const keepKeys = sql`INSERT OR IGNORE INTO millrace_past_key (seq, number, key)
  SELECT seq, number + (SELECT ifnull(max(number), 0) FROM millrace_past_key p WHERE p.seq = e.seq), key
  FROM millrace_journal e WHERE e.seq = @seq AND is_foreign = 1 ORDER BY number`;
/** Input: seq. The oldest ones go. */
const dropOldKeys = sql`DELETE FROM millrace_past_key WHERE seq = @seq AND number <=
  (SELECT number FROM millrace_past_key WHERE seq = @seq
    ORDER BY number DESC LIMIT 1 OFFSET ${storeLimits.journalKeysKeptMax})`;
/** Input: seq. */
const dropRead = sql`DELETE FROM millrace_journal WHERE seq = ? AND NOT (${isUnread})`;
const readNumbers = "SELECT number FROM millrace_journal WHERE seq = ? ORDER BY number";
const dropSlips = "DELETE FROM millrace_slip WHERE seq = ?";
/** Inputs: the new number, seq, the old number. */
const setNumber = "UPDATE millrace_journal SET number = ? WHERE seq = ? AND number = ?";

export function isNewRound(next: ChangeNext | SettleNext): boolean {
  return next.to === "scheduled" && next.newRound === true;
}

/** What nobody has read stays, with new numbers from 1 on. */
export function beginRound({ statements }: Step, seq: number): void {
  statements(keepKeys).run({ seq });
  statements(dropOldKeys).run({ seq });
  statements(dropRead).run(seq);
  statements(dropSlips).run(seq);
  for (const [index, [number]] of (statements(readNumbers).all(seq) as [number: number][]).entries())
    if (number !== index + 1) statements(setNumber).run(index + 1, seq, number);
}

/** Inputs: the seqs. */
const drops = ["journal", "past_key", "slip"].map((table) => `DELETE FROM millrace_${table}`);

/** Deletes the journals of these jobs. */
export function dropJournals(statements: Statements, seqs: readonly number[]): void {
  for (const drop of drops) runOnSeqs(statements, drop, seqs);
}
