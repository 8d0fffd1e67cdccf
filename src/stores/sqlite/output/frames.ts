/**
 * The output of a job: packed frames of its attempts, and its summary. It is kept among the log lines, so that jobs
 * without output cost nothing when they are deleted:
 *
 *  millrace_log   seq, fence, number | at, body    fence 0: log lines, and the summary under number 0
 *                                                  other fences: the chunks of the attempt with this fence
 */
import type { FramesPut, LeaseRef } from "../../../store/records.ts";
import type { Step } from "../connection/transaction.ts";
import { sql } from "../../../store/sql.ts";

/** Inputs: seq, fence. The summary goes with the chunks of lower fences. */
const dropOlder = sql`DELETE FROM millrace_log
  WHERE seq = @seq AND (fence > 0 AND fence < @fence OR fence = 0 AND number = 0)`;
/** Inputs: seq, fence, number, time, text. */
const putChunk = "INSERT OR IGNORE INTO millrace_log (seq, fence, number, at, body) VALUES (?, ?, ?, ?, ?)";
/** Inputs: seq, time, text. */
const putSummary =
  "INSERT OR REPLACE INTO millrace_log (seq, fence, number, at, body) VALUES (?, 0, 0, ?, ?)";
/** Inputs: seq, a place. */
const dropTo = "DELETE FROM millrace_log WHERE seq = ? AND fence > 0 AND (fence, number) <= (?, ?)";

/** Guard: the lease is the current one. */
export function writeFrames(
  { statements, now }: Step,
  { seq, fence }: LeaseRef,
  { chunks, summary, restarts, dropsTo }: FramesPut,
): void {
  if (restarts === true) statements(dropOlder).run({ seq, fence });
  for (const { number, body } of chunks) statements(putChunk).run(seq, fence, number, now, body);
  if (summary !== undefined) statements(putSummary).run(seq, now, summary);
  if (dropsTo !== undefined) statements(dropTo).run(seq, dropsTo.fence, dropsTo.number);
}
