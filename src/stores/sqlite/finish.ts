/**
 * Rule R3: the end of jobs, however it came about (settle, cancel, expiry, reclaim, an operator). The live row goes, the history is
 * written unless nothing is to be kept, a key held until the end is freed, and it is told.
 *
 * Rows move inside SQLite: reading them out and binding them again costs 5.4 us per job by 500, moving them in place 2.9.
 * Guards were checked by the caller inside the same transaction.
 */
import type { Finish } from "../../model/change.ts";
import { stateCodes } from "../../model/job-state.ts";
import { assertArrow } from "./arrow.ts";
import { forgetJobs } from "./forget.ts";
import { runOnSeqs } from "./seq-list.ts";
import { count, tell } from "./step.ts";
import type { Step } from "./step.ts";
import { freeKey } from "./unique.ts";

/** What the end of a job needs to know of it. */
export interface EndingJob {
  readonly seq: number;
  readonly id: string;
  readonly route: number;
  readonly state: number;
  readonly rev: number;
  readonly attempt: number;
  readonly holds: number;
}

export interface Ending {
  readonly job: EndingJob;
  readonly next: Finish;
  /** Null leaves the log as it is. */
  readonly attempts: string | null;
}

/** Whether the holder of the fence settles, so that its repeat can be answered `already`, or somebody else ends the job. */
export type EndedBy = "holder" | "other";

const columns = `seq, id, route, state, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, settled_fence, rev, cancel_asked, owner,
  claimed_at, started_at, ended_at, keep_until, reason, result, attempts, progress`;

function moveSql(result: string, attempts: string, source: string): string {
  return `INSERT INTO millrace_history (${columns})
    SELECT j.seq, j.id, j.route, ?, j.rank, j.due_at, j.deadline_at, j.ttl_at, j.attempt, j.counts_attempt, j.fence,
      CASE ? WHEN 1 THEN j.fence ELSE j.settled_fence END, j.rev + 1, j.cancel_asked, j.owner, j.claimed_at, j.started_at,
      ?, ?, ?, ${result}, ${attempts}, j.progress FROM ${source}`;
}

/** Inputs: state, ended by the holder, time, keep until, reason, a JSON object of seq -> result. */
const moveSeveral = moveSql(
  "e.value",
  "j.attempts",
  "json_each(?) e CROSS JOIN millrace_job j ON j.seq = CAST(e.key AS INTEGER)",
);
/** Inputs: state, ended by the holder, time, keep until, reason, result, attempts or null, seq. */
const moveOne = moveSql("?", "ifnull(?, j.attempts)", "millrace_job j WHERE j.seq = ?");
/** Live rows that have moved or are forgotten. */
const dropLive = "DELETE FROM millrace_job";

export function finishJobs(step: Step, endings: readonly Ending[], by: EndedBy): void {
  if (endings.length === 0) return;
  const move = openMove(step, by);
  const forgotten: number[] = [];
  for (const ending of endings) {
    const { job, next } = ending;
    const state = stateCodes[next.to];
    assertArrow(job.state, state);
    if (job.holds !== 0) freeKey(step.statements, job.seq);
    count(step, job.route, job.state, -1);
    if (next.keepMs === 0) {
      forgotten.push(job.seq);
    } else {
      count(step, job.route, state, 1);
      move.add(ending);
    }
    tell(step, {
      kind: next.event,
      id: job.id,
      rev: job.rev + 1,
      route: job.route,
      state,
      attempt: job.attempt,
      extra: next.reason,
    });
  }
  move.flush();
  forgetJobs(step.statements, forgotten);
  runOnSeqs(
    step.statements,
    dropLive,
    [],
    endings.map(({ job }) => job.seq),
  );
}

/** Collects endings that differ only in their result. */
function openMove({ statements, now }: Step, by: EndedBy) {
  const byHolder = by === "holder" ? 1 : 0;
  let first: Finish | null = null;
  let results: string[] = [];
  const keepUntil = ({ keepMs }: Finish): number | null => (keepMs === null ? null : now + keepMs);
  const flush = (): void => {
    if (first !== null && results.length > 0) {
      statements(moveSeveral).run(
        stateCodes[first.to],
        byHolder,
        now,
        keepUntil(first),
        first.reason,
        `{${results.join(",")}}`,
      );
    }
    results = [];
  };
  const add = ({ job, next, attempts }: Ending): void => {
    const { to, reason, keepMs, result } = next;
    // SQLite's JSON cannot carry a NUL.
    if (attempts !== null || result?.includes("\0") === true) {
      statements(moveOne).run(
        stateCodes[to],
        byHolder,
        now,
        keepUntil(next),
        reason,
        result,
        attempts,
        job.seq,
      );
      return;
    }
    if (first === null || first.to !== to || first.reason !== reason || first.keepMs !== keepMs) {
      flush();
      first = next;
    }
    results.push(`"${job.seq}":${result === null ? "null" : JSON.stringify(result)}`);
  };
  return { add, flush };
}
