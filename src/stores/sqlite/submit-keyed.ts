/**
 * Submit of a job that may be there already: by an id that the caller gave, by a repeat of an unknown submit, or by a live holder of
 * its unique key (rule R8). Everything is looked up before this job is written.
 */
import { stateCodes } from "../../model/job-state.ts";
import type { SubmitHow } from "../../store/operations.ts";
import type { NewJob } from "../../store/records.ts";
import { dueAtOf, waitingCode } from "./clock.ts";
import { forgetTags } from "./forget.ts";
import { addTags, tagsText } from "./insert.ts";
import type { Insert } from "./insert.ts";
import { readLive } from "./live-job.ts";
import type { LiveJob } from "./live-job.ts";
import { placeJob } from "./place.ts";
import { routeNumber } from "./route-book.ts";
import type { Step } from "./step.ts";

import { holdCode, holdsOf, readHolder, takeKey } from "./unique.ts";

export type KeyedAnswer =
  /** `isKnown`: a job with this very id is there, or was and still holds its key. */
  | { readonly kind: "ok"; readonly id: string; readonly how: SubmitHow; readonly isKnown: boolean }
  | { readonly kind: "refused"; readonly reason: "id-differs"; readonly id: string };

/** Input: id. Answer: the digest of the job with this id, live or finished. */
const findDigest = "SELECT digest FROM millrace_spec WHERE id = ?";

export function submitKeyed(step: Step, insert: Insert, job: NewJob, isRepeat: boolean): KeyedAnswer {
  const { statements, now } = step;
  if (job.digest !== null || isRepeat) {
    const known = knownDigest(step, insert, job.id);
    if (known === job.digest) return { kind: "ok", id: job.id, how: "existing", isKnown: true };
    if (known !== undefined) return { kind: "refused", reason: "id-differs", id: job.id };
  }
  if (job.unique !== null) {
    const holder = readHolder(statements, job.unique.key, now);
    if (holder !== null) {
      // It may have been submitted by this very call.
      insert.flush();
      return meetHolder(step, holder.seq, holder.id, job);
    }
  }
  const seq = insert.add(job);
  if (job.unique !== null)
    takeKey(statements, job.unique.key, { seq, id: job.id }, holdCode(job.unique.hold), now);
  return { kind: "ok", id: job.id, how: "created", isKnown: false };
}

function knownDigest(step: Step, insert: Insert, id: string): string | null | undefined {
  const pending = insert.pendingDigest(id);
  if (pending !== undefined) return pending;
  const row = step.statements(findDigest).get(id) as [digest: string | null] | undefined;
  return row?.[0];
}

function meetHolder(step: Step, seq: number, id: string, job: NewJob): KeyedAnswer {
  const onHeld = job.unique?.onHeld ?? "keep";
  const holder = onHeld === "keep" ? null : readLive(step.statements, seq);
  if (holder === null || !hasNotStarted(holder))
    return { kind: "ok", id, how: "existing", isKnown: id === job.id };
  if (onHeld === "replace") replaceHolder(step, holder, job);
  else placeJob(step, holder, placeOf(step, holder, job), "rescheduled");
  return { kind: "ok", id, how: onHeld === "replace" ? "replaced" : "rescheduled", isKnown: false };
}

function hasNotStarted(holder: LiveJob): boolean {
  const { state, attempt } = holder;
  const isWaiting =
    state === stateCodes.blocked || state === stateCodes.scheduled || state === stateCodes.ready;
  return isWaiting && attempt === 0;
}

/** Due, rank and ttl of the new job on the holder's row. A blocked holder stays blocked. */
function placeOf(step: Step, holder: LiveJob, job: NewJob): Partial<LiveJob> {
  const dueAt = dueAtOf(job.due, step.now);
  return {
    state: holder.state === stateCodes.blocked ? holder.state : waitingCode(dueAt, step.now),
    dueAt,
    rank: job.rankBase + job.rankSlope * dueAt,
    ttlAt: job.ttlMs === null ? null : dueAt + job.ttlMs,
  };
}

/** Inputs: policy, meta, tags, input, unique hold, seq. The id, its digest, the key and the time of creation stay. */
const replaceSpec = `UPDATE millrace_spec SET policy = ?, meta = ?, tags = ?, input = ?, unique_hold = ? WHERE seq = ?`;
function replaceHolder(step: Step, holder: LiveJob, job: NewJob): void {
  const { statements, now, turn } = step;
  const unique = job.unique;
  if (unique === null) return;
  const hold = holdCode(unique.hold);
  forgetTags(statements, holder.seq);
  statements(replaceSpec).run(job.policy, job.meta, tagsText(job), job.input, hold, holder.seq);
  addTags(statements, holder.seq, job.tags);
  takeKey(statements, unique.key, holder, hold, now);
  const changes: Partial<LiveJob> = {
    ...placeOf(step, holder, job),
    route: routeNumber(statements, turn.routes, job.queue, job.name),
    deadlineAt: job.deadline === null ? null : dueAtOf(job.deadline, now),
    holds: holdsOf(hold),
  };
  placeJob(step, holder, changes, "replaced");
}
