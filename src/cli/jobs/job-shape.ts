/** A job as `--json` prints it: always the same fields, absent values as null, times as ISO texts. */
import type { JobView } from "../../client/jobs/job-view.ts";

export function jobShape(job: JobView): Readonly<Record<string, unknown>> {
  return {
    id: job.id,
    name: job.name,
    queue: job.queue,
    requires: job.requires,
    group: job.group,
    state: job.state,
    held: job.held,
    reason: job.reason,
    attempt: job.attempt,
    attemptsMax: job.attemptsMax,
    tags: job.tags,
    headers: job.headers,
    schedule: job.schedule,
    flow: job.flow,
    uniqueKey: job.uniqueKey,
    throttles: job.throttles,
    spent: job.spent,
    cancelAsked: job.cancelAsked,
    worker: job.worker,
    createdAt: job.createdAt,
    dueAt: job.dueAt,
    claimedAt: job.claimedAt,
    startedAt: job.startedAt,
    leaseEndsAt: job.leaseEndsAt,
    deadlineAt: job.deadlineAt,
    endedAt: job.endedAt,
    input: job.input ?? null,
    result: job.result ?? null,
    progress: job.progress ?? null,
    failures: job.failures.map(({ at, attempt, outcome, ranMs, worker, error }) => ({
      attempt,
      outcome,
      at: new Date(at),
      ranMs: ranMs ?? null,
      worker: worker || null,
      error: error ?? null,
    })),
  };
}
