/**
 * Rule R8 (resolves a key conflict): a submit finds its unique key held. The holder is kept or replaced, as the new job
 * says. It is replaced only if it was never claimed and is no member of a flow.
 */
import { stateCodes } from "../../model/job/job-state.ts";
import { unstartedStates } from "../../model/job/unique-key.ts";
import type { JobRow } from "../job-fields.ts";
import type { SubmitHow } from "../operations.ts";
import type { NewJob } from "../records.ts";
import { advance, clearedBy } from "./advance.ts";
import type { Outcome } from "./advance.ts";
import { submittedBy } from "./place.ts";

const cleared = clearedBy("place");
const unstartedCodes: readonly number[] = unstartedStates.map((state) => stateCodes[state]);

function isReplaceable({ state, attempt, waits }: JobRow): boolean {
  return attempt === 0 && unstartedCodes.includes(state) && waits === null;
}

export interface Meeting {
  readonly how: Exclude<SubmitHow, "created">;
  /** The holder after the conflict; null if it is unchanged. */
  readonly outcome: Outcome | null;
}

/** `holder` is null if the key outlives its job. `route` is that of the new job. */
export function meet(
  holder: JobRow | null,
  job: NewJob,
  { route, now }: { readonly route: number; readonly now: number },
): Meeting {
  const onHeld = job.unique?.onHeld ?? "keep";
  if (onHeld === "keep" || holder === null || !isReplaceable(holder))
    return { how: "existing", outcome: null };
  return { how: "replaced", outcome: replace(holder, job, route, now) };
}

/** The holder takes everything from the new job's submit; only its identity stays. */
function replace(holder: JobRow, job: NewJob, route: number, now: number): Outcome {
  const { seq, id, createdAt, digest, uniqueKey } = holder;
  const identity = { id, createdAt, digest, uniqueKey };
  const changes = { ...cleared, ...submittedBy(job, { seq, route, now }), ...identity };
  return { row: advance(holder, changes), event: "replaced", isKept: true, key: "taken" };
}
