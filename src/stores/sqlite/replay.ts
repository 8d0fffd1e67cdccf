/**
 * Replay: a finished job comes back to life under its own id and seq. Its fence goes on growing, so no settle of an earlier round can ever
 * count; a key held until the end is taken again, or the replay is refused. A deadline that has passed is dropped: the job would end
 * again before anybody could run it.
 */
import type { Schedule } from "../../model/change.ts";
import { assertArrow } from "./arrow.ts";
import { timerAtOf } from "./clock.ts";
import type { LiveJob } from "./live-job.ts";
import { editSpec, tellWaiting, waitingChanges } from "./place.ts";
import { stateOfCode } from "../../model/job-state.ts";
import type { JobState } from "../../model/job-state.ts";
import { count, hintDue } from "./step.ts";
import type { Step } from "./step.ts";
import { holds, holdsOf, readHolder, takeKey } from "./unique.ts";

export type ReplayOutcome =
  | { readonly kind: "ok"; readonly state: JobState }
  | { readonly kind: "key-held"; readonly by: string };

/** Input: seq. Answer: the key it was submitted with. */
const findKey = "SELECT unique_key, unique_hold FROM millrace_spec WHERE seq = ?";
/** Inputs: the whole row. */
const addLive = `INSERT INTO millrace_job (seq, id, route, state, rank, due_at, timer_at, deadline_at, ttl_at, attempt, counts_attempt, fence,
  settled_fence, rev, cancel_asked, holds, owner, claimed_at, started_at, attempts, progress)
  VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`;
/** Input: seq. */
const dropFinished = "DELETE FROM millrace_history WHERE seq = ?";

export function replayJob(
  step: Step,
  finished: LiveJob,
  next: Schedule,
  attempts: string | null,
): ReplayOutcome {
  const { statements, now } = step;
  const [key, hold] = statements(findKey).get(finished.seq) as [key: string | null, hold: number | null];
  const held = holdsOf(hold) === holds.untilEnd ? holds.untilEnd : holds.none;
  if (key !== null && held === holds.untilEnd) {
    const holder = readHolder(statements, key, now);
    if (holder !== null && holder.seq !== finished.seq) return { kind: "key-held", by: holder.id };
    takeKey(statements, key, finished, hold ?? 0, now);
  }
  const { deadlineAt } = finished;
  const job: LiveJob = {
    ...finished,
    ...waitingChanges(finished, next, now),
    deadlineAt: deadlineAt !== null && deadlineAt <= now ? null : deadlineAt,
    rev: finished.rev + 1,
    cancelAsked: 0,
    holds: held,
    attempts: attempts ?? finished.attempts,
  };
  assertArrow(finished.state, job.state);
  const timerAt = timerAtOf(job.state, job);
  statements(dropFinished).run(job.seq);
  // prettier-ignore
  statements(addLive).run(job.seq, job.id, job.route, job.state, job.rank, job.dueAt, timerAt, job.deadlineAt, job.ttlAt, job.attempt,
    job.countsAttempt, job.fence, job.settledFence, job.rev, job.cancelAsked, job.holds, job.owner, job.claimedAt, job.startedAt,
    job.attempts, job.progress);
  editSpec(statements, job.seq, next.edit);
  count(step, finished.route, finished.state, -1);
  count(step, job.route, job.state, 1);
  hintDue(step, timerAt);
  tellWaiting(step, job, next.event);
  return { kind: "ok", state: stateOfCode(job.state) };
}
