/**
 * The general path of a submit: a job that may be there already, by an id that the caller gave, by a repeat of an
 * unknown submit, or by a live holder of its unique key (rule R8). Everything is looked up before this job is written.
 */
import { isOfFlow } from "../../../store/path-predicates.ts";
import type { SubmitHow } from "../../../store/operations.ts";
import type { NewJob } from "../../../store/records.ts";
import { meet } from "../../../store/rules/meet.ts";
import { placeNew } from "../../../store/rules/place.ts";
import { moveLane, emitSubmitted } from "../../../store/rules/call-events.ts";
import { keepRoute } from "./routes.ts";
import { readLive } from "./job-rows.ts";
import { nextSeq } from "../connection/transaction.ts";
import type { Step } from "../connection/transaction.ts";
import { readHolder, takeKey } from "./unique-keys.ts";
import type { Holder } from "./unique-keys.ts";
import { writeOutcome } from "./write-outcome.ts";

export type JobAnswer =
  /** `isKnown`: a job with this very id is there, or was and still holds its key. */
  | { readonly kind: "ok"; readonly id: string; readonly how: SubmitHow; readonly isKnown: boolean }
  | {
      readonly kind: "refused";
      readonly reason: "id-differs" | "intake-closed" | "key-held";
      readonly id: string;
    };

/** Input: id. Answer: the digest of the job with this id, live or finished. */
const findDigest = "SELECT digest FROM millrace_spec WHERE id = ?";

/** `isRefused`: its queue takes no new work. `isMember`: it has the path of flow members. */
export function submitGeneral(
  step: Step,
  job: NewJob,
  given: { readonly isRepeat: boolean; readonly isRefused: boolean; readonly isMember?: boolean },
): JobAnswer {
  const { statements, commit, now } = step;
  const { insert } = commit;
  const { isRepeat, isRefused, isMember } = given;
  const { id, digest, unique } = job;
  if (digest !== null || isRepeat) {
    if (insert.hasPending(id)) insert.flush();
    const known = statements(findDigest).get(id) as [digest: string | null] | undefined;
    if (known !== undefined && known[0] !== digest) return { kind: "refused", reason: "id-differs", id };
    if (known !== undefined) return { kind: "ok", id, how: "existing", isKnown: true };
  }
  if (isRefused) return { kind: "refused", reason: "intake-closed", id };
  const route = keepRoute(statements, commit.routes, job);
  const holder = unique === null ? null : readHolder(statements, unique.key, now);
  if (holder !== null) {
    if (isOfFlow(job)) return { kind: "refused", reason: "key-held", id };
    // It may have been submitted by this very transaction.
    insert.flush();
    return meetHolder(step, holder, job, route);
  }
  const row = placeNew(job, { seq: nextSeq(commit), route, now });
  insert.add(row, isMember);
  if (unique !== null) takeKey(statements, row, now);
  if (job.laneKey !== undefined) joinLane(step, row, job.laneKey);
  emitSubmitted(step, row);
  return { kind: "ok", id, how: "created", isKnown: false };
}

function joinLane(step: Step, row: ReturnType<typeof placeNew>, laneKey: string): void {
  const { seq, route, rank, state, timerAt, laneStep = null, laneGates = null } = row;
  moveLane(step, null, { seq, route, rank, state, timerAt, keepsLane: 0, laneKey, laneStep, laneGates });
}

function meetHolder(step: Step, { seq, id }: Holder, job: NewJob, route: number): JobAnswer {
  const { statements, now } = step;
  const holder = readLive(statements, seq);
  const { how, outcome } = meet(holder, job, { route, now });
  if (outcome === null || holder === null) return { kind: "ok", id, how, isKnown: id === job.id };
  writeOutcome(step, holder, outcome);
  return { kind: "ok", id, how, isKnown: false };
}
