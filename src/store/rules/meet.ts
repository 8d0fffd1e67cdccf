/**
 * Rule R8: a submit finds its unique key held. The holder is kept, replaced or rescheduled, as the new job says, and only while no worker
 * has ever taken it.
 */
import { stateCodes } from "../../model/job-state.ts";
import { unstartedStates } from "../../model/unique-key.ts";
import type { JobRow } from "../job-fields.ts";
import type { SubmitHow } from "../operations.ts";
import type { NewJob } from "../records.ts";
import { advance, clearedBy } from "./advance.ts";
import type { Outcome } from "./advance.ts";
import { deadlineAtOf, givenBy, placeOf } from "./place.ts";
import { holdsOf } from "./unique-holds.ts";

const unstartedCodes: readonly number[] = unstartedStates.map((state) => stateCodes[state]);

/** A holder that no worker has ever taken can still be replaced or rescheduled. */
export function isUnstarted({ state, attempt }: Pick<JobRow, "state" | "attempt">): boolean {
  return attempt === 0 && unstartedCodes.includes(state);
}

export interface Meeting {
  readonly how: Exclude<SubmitHow, "created">;
  /** What becomes of the holder; null where it is kept as it is. */
  readonly outcome: Outcome | null;
}

const kept: Meeting = { how: "existing", outcome: null };

/** `holder` is null where the key outlives its job. `route` is that of the new job. */
export function meet(
  holder: JobRow | null,
  job: NewJob,
  { route, now }: { readonly route: number; readonly now: number },
): Meeting {
  const onHeld = job.unique?.onHeld ?? "keep";
  if (onHeld === "keep" || holder === null || !isUnstarted(holder)) return kept;
  const place = placeOf(job, now);
  // Whatever blocks the holder blocks it still.
  if (holder.state === stateCodes.blocked) place.state = stateCodes.blocked;
  if (onHeld === "reschedule") {
    const row = advance(holder, { ...clearedBy("place"), ...place });
    return { how: "rescheduled", outcome: { row, event: "rescheduled", isKept: true, key: "stays" } };
  }
  const row = advance(holder, { ...clearedBy("place"), ...replacement(holder, job, now), ...place, route });
  return { how: "replaced", outcome: { row, event: "replaced", isKept: true, key: "taken" } };
}

/** The new job's content on the holder's row: its identity stays. */
function replacement(holder: JobRow, job: NewJob, now: number): Partial<JobRow> {
  const { seq, id, createdAt, digest, uniqueKey } = holder;
  const given = givenBy(job);
  const holds = holdsOf(given.uniqueHold ?? null);
  return { ...given, holds, deadlineAt: deadlineAtOf(job, now), seq, id, createdAt, digest, uniqueKey };
}
