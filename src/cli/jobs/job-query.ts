/** Jobs by what they are: the filter that list, cancel, retry and purge share. */
import type { JobQuery } from "../../client/jobs/job-filter.ts";
import type { JobState } from "../../model/job/job-state.ts";
import { flag, list, pastInstant, text } from "../arguments/option-kinds.ts";
import type { ValuesOf } from "../arguments/option-kinds.ts";

/** @param states those in which the command's jobs may be. */
export function filterOptions(states: readonly JobState[]) {
  return {
    state: list("STATE", "jobs in this state, or in one of several: failed,cancelled", states),
    queue: text("QUEUE", "jobs of this queue"),
    name: text("NAME", "jobs of this name"),
    tag: text("TAG", "jobs with this tag"),
    reason: text("REASON", "jobs that ended for this reason, such as retries-exhausted"),
    after: pastInstant("jobs made since this time (2026-01-31T12:00Z) or so long ago (2h)"),
    before: pastInstant("jobs made before this time, or longer ago"),
    "holds-group": flag("jobs that hold their group although they do not run, such as failed ones"),
  };
}

type Filter = ValuesOf<ReturnType<typeof filterOptions>>;

/** Takes the filter out of all options of a call. */
export function queryOf({ state, queue, name, tag, reason, after, before, ...others }: Filter): JobQuery {
  const query = {
    ...{ state, queue, name, tag, reason, createdAfter: after, createdBefore: before },
    holdsGroup: others["holds-group"],
  };
  // A condition that is there but undefined would be refused.
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) as JobQuery;
}

/** Whether any filter was given: a command that acts must never act on everything by having none. */
export function hasFilter(options: Filter): boolean {
  return Object.keys(queryOf(options)).length > 0;
}
