/**
 * Attempt timeout: ends an attempt that outlives its timeout and the abort grace although its worker still renews the
 * lease. It is the backstop for the worker's own timer.
 */
import { afterTimeout } from "../../model/job/after-run.ts";
import type { Needs } from "../services.ts";
import { modelSources } from "../policies/model-sources.ts";
import { dueDuty } from "./due-duty.ts";
import type { DueDutyNeeds } from "./due-duty.ts";
import type { Duty } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";

export function attemptTimeoutDuty(
  needs: DueDutyNeeds & Needs<"backoffs" | "repeated">,
  tuning: Tuning,
): Duty {
  return dueDuty(needs, {
    tuning,
    name: "attempt-timeout",
    clock: "attempt",
    applied({ id, attempt, owner, lateMs }, state) {
      const fields = { id, attempt, worker: owner, lateMs };
      const why = "its attempt outlived its timeout, and its worker had not ended it";
      if (state === "failed") needs.log.error(`job failed for good: ${why}`, fields);
      else needs.log.warn(`attempt timed out: ${why}`, fields);
    },
    decide(job, now) {
      const { next, attempts } = afterTimeout(job, modelSources(needs, now, job.owner ?? ""));
      return {
        guard: { states: ["running"], rev: job.rev, fence: job.fence, rang: "attempt" },
        next,
        attempts,
      };
    },
  });
}
