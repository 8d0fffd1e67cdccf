/**
 * The paths of Redis (store/paths.ts). This process chooses those of a submit, because it packs them; the library
 * chooses all others, by branches that path-branches.ts makes of this table. What a branch finds unusual on the way is
 * left to the general path.
 */
import { laneOrderOf } from "../../model/routing/lane.ts";
import type { SubmitUnit } from "../../store/operations.ts";
import type { StorePaths } from "../../store/paths.ts";
import { isOfFlow, isPlainButForFlow, isPlainButForLane, isPlainUnit } from "../../store/path-predicates.ts";
import type { NewJob } from "../../store/records.ts";

/** Checks are looked at before the jobs of their unit, on any path. */
const unchecked = (unit: SubmitUnit): SubmitUnit =>
  unit.checks === undefined || unit.checks.length === 0 ? unit : { ...unit, checks: [] };

/** In a lane or of a flow, not both: where a job joins its lane depends on whether it is blocked. */
const isPlainOfAny = (job: NewJob): boolean =>
  isOfFlow(job) ? laneOrderOf(job) === null && isPlainButForFlow(job) : isPlainButForLane(job);

export const redisPaths = {
  /** Of a unit. Members of a flow share what their bodies have before their inputs. */
  submit: [
    { path: "set", takes: (unit: SubmitUnit) => isPlainUnit(unchecked(unit), isPlainButForLane) },
    { path: "flow members", takes: (unit: SubmitUnit) => isPlainUnit(unchecked(unit), isPlainOfAny) },
  ],
  /** Of an offer of jobs with lanes: one route without gates, and no clock of a waiting job has rung. */
  claim: [
    {
      path: "lanes",
      takes: {
        inStore: "#routes == 1 and not c.hasRung and lanedOf(c, routes[1]) and not usesOf(c, routes[1])",
      },
    },
  ],
  /** Of a picked job: its first claim, with nothing but tags, a key and a lane beyond a plain one; or a member. */
  lease: [
    { path: "set", takes: { inStore: "readFirst(spec, state, route)" } },
    { path: "flow members", takes: { inStore: "readMember(spec, route)" } },
  ],
  /** Of what a settle makes of its job, of which the call has nothing else. */
  settle: [
    { path: "flow members", takes: { inStore: 'next.kind == "finish" and next.keepsLane ~= "1"' } },
    {
      path: "set",
      takes: {
        inStore:
          'next.kind == "finish" and next.keepMs ~= "0" and next.keepResultMs == "" and next.keepsLane ~= "1"',
      },
    },
  ],
  /** Of a write: entries alone, of a job that the call has not in view; setsBack may come with them. */
  record: [
    {
      path: "set",
      takes: {
        inStore: "(parts == ENTRIES or parts == ENTRIES_AND_BACK) and c.jobs[c.args[first + at - 1]] == nil",
      },
    },
  ],
  /** Of a job to which an edge leads from one that ended. */
  arrive: [{ path: "flow members", takes: { inStore: "target.alike and c.jobs[target.h] == nil" } }],
} as const satisfies StorePaths;
