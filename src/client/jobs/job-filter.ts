/** Filters of jobs: what callers write, checked and turned into what a store takes. */
import { checkDefinition } from "../../engine/submit/job-definition.ts";
import type { AnyJob } from "../../engine/submit/job-definition.ts";
import type { EndReason } from "../../model/job/end-reason.ts";
import { readInstant } from "../../model/instant.ts";
import { MillraceError } from "../../model/error.ts";
import { isJobState } from "../../model/job/job-state.ts";
import type { JobState } from "../../model/job/job-state.ts";
import { checkOptions } from "../../model/option.ts";
import type { JobFilter } from "../../store/operations.ts";

export interface JobQuery {
  state?: JobState | readonly JobState[];
  queue?: string;
  /** The name of the jobs. */
  name?: string;
  job?: AnyJob;
  tag?: string;
  /** Why the job ended, such as "retries-exhausted", or the reason that a cancel gave. */
  reason?: EndReason | (string & {});
  createdAfter?: Date | number;
  createdBefore?: Date | number;
  /**
   * True for only those jobs that hold their group although they do not run, such as one that failed with
   * `holdsOnFailure`.
   */
  holdsGroup?: true;
}

/**
 * The query of an action on many jobs, over `states` unless it names its own. A query without a condition is refused,
 * and so is a condition whose value is undefined: both would act on every job.
 */
export function overStates(query: JobQuery, states: readonly JobState[]): JobQuery {
  const conditions = typeof query === "object" && query !== null ? Object.entries(query) : [];
  if (conditions.length === 0)
    throw new MillraceError(
      "invalid-option",
      "filter: name at least one condition, such as queue, name, tag or state.",
    );
  for (const [key, value] of conditions) {
    if (value === undefined)
      throw new MillraceError(
        "invalid-option",
        `filter: ${key} is undefined; leave it out or give it a value.`,
      );
  }
  return query.state === undefined ? { ...query, state: states } : query;
}

/** @param cursor that of an earlier page. @param partitions how many partitions the store has. */
export function readCursor(cursor: unknown, partitions: number, what: string): string | null {
  const form = partitions === 1 ? /^\d{1,16}$/ : /^[\d.-]{1,20000}$/;
  if (cursor === null || (typeof cursor === "string" && form.test(cursor))) return cursor;
  throw new MillraceError(
    "invalid-option",
    `${what}: cursor must be the cursor of an earlier page, or null.`,
  );
}

export function readFilter(query: JobQuery): JobFilter {
  checkOptions(query, "filter", [
    "state",
    "queue",
    "name",
    "job",
    "tag",
    "reason",
    "createdAfter",
    "createdBefore",
    "holdsGroup",
  ]);
  const { state, queue, job, tag, reason, createdAfter, createdBefore, holdsGroup } = query;
  if (holdsGroup !== undefined && holdsGroup !== true)
    throw new MillraceError("invalid-option", "filter: holdsGroup must be true; leave it out for all jobs.");
  if (job !== undefined) {
    checkDefinition(job, "filter");
    if (query.name !== undefined)
      throw new MillraceError("invalid-option", "filter: give either name or job, not both.");
  }
  const name = job?.name ?? query.name;
  const states = state === undefined || Array.isArray(state) ? state : [state as JobState];
  for (const [key, value] of Object.entries({ queue, name, tag, reason })) {
    if (value !== undefined && typeof value !== "string")
      throw new MillraceError("invalid-option", `filter: ${key} must be a text.`);
  }
  for (const each of (states ?? []) as readonly JobState[]) {
    if (!isJobState(each))
      throw new MillraceError(
        "invalid-option",
        `filter: ${JSON.stringify(String(each))} is not a state of a job.`,
      );
  }
  return {
    ...(states === undefined ? {} : { states: states as readonly JobState[] }),
    ...(queue === undefined ? {} : { queue }),
    ...(name === undefined ? {} : { name }),
    ...(tag === undefined ? {} : { tag }),
    ...(reason === undefined ? {} : { reason }),
    ...(holdsGroup === undefined ? {} : { keepsLane: true }),
    ...(createdAfter === undefined
      ? {}
      : { createdAfter: readInstant(createdAfter, "filter: createdAfter") }),
    ...(createdBefore === undefined
      ? {}
      : { createdBefore: readInstant(createdBefore, "filter: createdBefore") }),
  };
}
