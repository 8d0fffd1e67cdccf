/** The filter options that list, retry, cancel and purge share. */
import type { JobQuery } from "../../client/jobs/job-filter.ts";
import { isJobState } from "../../model/job/job-state.ts";
import type { JobState } from "../../model/job/job-state.ts";
import type { Call } from "../command.ts";
import { quote, readList, wrong } from "../arguments/read-args.ts";
import { readPastInstant } from "../arguments/read-instant.ts";

export const filterOptions = {
  state: { value: "STATE", meaning: "jobs in this state, or in one of several: failed,cancelled" },
  queue: { value: "QUEUE", meaning: "jobs of this queue" },
  name: { value: "NAME", meaning: "jobs of this name" },
  tag: { value: "TAG", meaning: "jobs with this tag" },
  reason: { value: "REASON", meaning: "jobs that ended for this reason, such as retries-exhausted" },
  after: { value: "TIME", meaning: "jobs made since this time (2026-01-31T12:00Z) or so long ago (2h)" },
  before: { value: "TIME", meaning: "jobs made before this time, or longer ago" },
  "holds-group": { meaning: "jobs that hold their group although they do not run, such as failed ones" },
} as const;

export function readQuery(
  { options, platform }: Pick<Call, "options" | "platform">,
  allowedStates: readonly JobState[],
): JobQuery {
  const query: JobQuery = {};
  const states = readList(options, "state");
  if (states !== undefined) query.state = states.map((state) => readState(state, allowedStates));
  for (const key of ["queue", "name", "tag", "reason"] as const) {
    const value = options.get(key);
    if (value !== undefined) query[key] = value;
  }
  const now = platform.now();
  const [after, before] = [readPastInstant(options, "after", now), readPastInstant(options, "before", now)];
  if (after !== undefined) query.createdAfter = after;
  if (before !== undefined) query.createdBefore = before;
  if (options.has("holds-group")) query.holdsGroup = true;
  return query;
}

/** Whether any filter was given: a command that acts must never act on everything by having none. */
export function hasFilter(options: ReadonlyMap<string, string>): boolean {
  return Object.keys(filterOptions).some((key) => options.has(key));
}

function readState(state: string, allowed: readonly JobState[]): JobState {
  if (isJobState(state) && allowed.includes(state)) return state;
  throw wrong(`--state must be one of ${allowed.join(", ")}, not ${quote(state)}`);
}
