/**
 * Rule R3: the end of jobs, however it came about (settle, cancel, expiry, reclaim, an operator). The live row goes, the history is
 * written unless nothing is to be kept, a key held until the end is freed, and it is told.
 *
 * Guards were checked by the caller inside the same transaction.
 */
import type { Finish } from "../../model/change.ts";
import { stateCodes } from "../../model/job-state.ts";
import { assertArrow } from "./arrow.ts";
import { insertRows } from "./connection.ts";
import type { SqlValue, Statements } from "./connection.ts";
import type { LiveJob } from "./live-job.ts";
import { count, tell } from "./step.ts";
import type { Step } from "./step.ts";
import { freeKey } from "./unique.ts";

export interface Ending {
  readonly job: LiveJob;
  readonly next: Finish;
  /** Null leaves the log as it is. */
  readonly attempts: string | null;
  /** The fence, when its holder settled; what was settled before when somebody else ended the job. */
  readonly settledFence: number;
}

const historyWidth = 23;
const historyRow = `(${Array.from({ length: historyWidth }, () => "?").join(",")})`;
/** Inputs: the whole row. */
const addHistory = `INSERT INTO millrace_history (seq, id, route, state, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence,
  settled_fence, rev, cancel_asked, owner, claimed_at, started_at, ended_at, keep_until, reason, result, attempts, progress) VALUES`;
/** Input: a JSON list of seqs. */
const dropSeveral = "DELETE FROM millrace_job WHERE seq IN (SELECT value FROM json_each(?))";
/** Input: seq. */
const dropOne = "DELETE FROM millrace_job WHERE seq = ?";

export function finishJobs(step: Step, endings: readonly Ending[]): void {
  if (endings.length === 0) return;
  const { statements, now } = step;
  const rows: SqlValue[] = [];
  const seqs: number[] = [];
  for (const { job, next, attempts, settledFence } of endings) {
    const state = stateCodes[next.to];
    assertArrow(job.state, state);
    const rev = job.rev + 1;
    seqs.push(job.seq);
    if (job.holds !== 0) freeKey(statements, job.seq);
    count(step, job.route, job.state, -1);
    if (next.keepMs === 0) {
      forgetJob(statements, job.seq);
    } else {
      count(step, job.route, state, 1);
      // prettier-ignore
      rows.push(job.seq, job.id, job.route, state, job.rank, job.dueAt, job.deadlineAt, job.ttlAt, job.attempt, job.countsAttempt, job.fence,
        settledFence, rev, job.cancelAsked, job.owner, job.claimedAt, job.startedAt, now, next.keepMs === null ? null : now + next.keepMs,
        next.reason, next.result, attempts ?? job.attempts, job.progress);
    }
    tell(step, { kind: next.event, id: job.id, rev, route: job.route, state, attempt: job.attempt, extra: next.reason });
  }
  insertRows(statements, addHistory, historyRow, rows, historyWidth);
  if (seqs.length < 3) for (const seq of seqs) statements(dropOne).run(seq);
  else statements(dropSeveral).run(JSON.stringify(seqs));
}

/** Inputs: seq. What hangs on a job that is kept nowhere any more. */
const forgetTags = `DELETE FROM millrace_tag WHERE seq = ? AND tag IN (SELECT value FROM json_each((SELECT tags FROM millrace_spec WHERE seq = ?)))`;
const forgetTrail = "DELETE FROM millrace_trail WHERE seq = ?";
const forgetSpec = "DELETE FROM millrace_spec WHERE seq = ?";

export function forgetJob(statements: Statements, seq: number): void {
  statements(forgetTags).run(seq, seq);
  statements(forgetTrail).run(seq);
  statements(forgetSpec).run(seq);
}
