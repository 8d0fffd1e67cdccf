/** Reading the output of jobs, live or finished (frames.ts). */
import { isTerminal, jobStates } from "../../../model/job/job-state.ts";
import type { TerminalState } from "../../../model/job/job-state.ts";
import type { FramesAnswer, FramesRead } from "../../../store/operations.ts";
import type { FrameChunk } from "../../../store/records.ts";
import { limitTo, readValue } from "../connection/connection.ts";
import type { Statements } from "../connection/connection.ts";
import { Unreadable } from "../connection/errors.ts";
import type { Step } from "../connection/transaction.ts";
import { seqOfId } from "../jobs/job-rows.ts";
import { sql } from "../../../store/sql.ts";

/** Input: seq. */
const readState = sql`SELECT state FROM millrace_job WHERE seq = @seq
  UNION ALL SELECT state FROM millrace_history WHERE seq = @seq`;
/** Input: seq. */
const readSummary = "SELECT body FROM millrace_log WHERE seq = ? AND fence = 0 AND number = 0";
/** Inputs: seq, the place to go on after, limit. */
const readPage = sql`SELECT fence, number, at, body FROM millrace_log
  WHERE seq = ? AND fence > 0 AND (fence, number) > (?, ?) ORDER BY fence, number ${limitTo("?")}`;
/** Input: seq. */
const readNewest = sql`SELECT fence, number, at, body FROM millrace_log
  WHERE seq = ? AND fence > 0 ORDER BY fence DESC, number DESC LIMIT 1`;

export function readFrames({ statements }: Step, reads: readonly FramesRead[]): FramesAnswer[] {
  return reads.map((read) => readOne(statements, read));
}

function readOne(statements: Statements, { id, after, max }: FramesRead): FramesAnswer {
  const seq = seqOfId(statements, id);
  if (seq === null) return { kind: "gone" };
  const ended = readEnd(statements, seq);
  const rows =
    after === null
      ? statements(readNewest).all(seq)
      : statements(readPage).all(seq, after.fence, after.number, max);
  const chunks = (rows as ChunkRow[]).map(([fence, number, at, body]): FrameChunk => ({
    fence,
    number,
    at,
    body,
  }));
  return { kind: "ok", chunks, summary: readValue<string>(statements, readSummary, seq) ?? null, ended };
}

type ChunkRow = readonly [fence: number, number: number, at: number, body: string];

function readEnd(statements: Statements, seq: number): TerminalState | null {
  const row = statements(readState).get({ seq }) as [state: number] | undefined;
  const state = row === undefined ? undefined : jobStates[row[0]];
  if (state === undefined) throw new Unreadable("job", seq, "it is neither live nor finished");
  return isTerminal(state) ? state : null;
}
