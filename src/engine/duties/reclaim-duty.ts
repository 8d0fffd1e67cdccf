/**
 * Reclaim: takes a lease that has expired by the store's clock from its worker, which is gone, paused or cut off. The
 * job is retried with backoff, or fails if it has lost too many leases.
 *
 * A lease of a live worker of this process is left to that worker, which renews it late instead of losing its work.
 */
import { afterCrash, lostLeases } from "../../model/job/after-run.ts";
import type { Needs } from "../services.ts";
import type { HeldLeases } from "../attempts/held-leases.ts";
import { modelSources } from "../policies/model-sources.ts";
import { dueDuty } from "./due-duty.ts";
import type { DueDutyNeeds } from "./due-duty.ts";
import type { Duty } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";

export function reclaimDuty(
  needs: DueDutyNeeds & Needs<"backoffs" | "repeated">,
  leases: HeldLeases,
  tuning: Tuning,
): Duty {
  return dueDuty(needs, {
    tuning,
    name: "reclaim",
    clock: "lease",
    applied({ id, attempt, owner, lateMs, policy }, state) {
      const fields = { id, attempt, worker: owner, lateMs };
      if (needs.policies.read(policy).isPermit)
        needs.log.warn("lease expired, its permit is free again", fields);
      else if (state === "failed") needs.log.error(`job failed for good: crash-loop, ${lostLeases}`, fields);
      else needs.log.warn("lease expired, job reclaimed", fields);
    },
    decide(job, now) {
      if (leases.isHeldHere(job)) return null;
      const { next, attempts } = afterCrash(job, job.started, modelSources(needs, now, job.owner ?? ""));
      return {
        guard: { states: ["running"], rev: job.rev, fence: job.fence, rang: "lease" },
        next,
        attempts,
      };
    },
  });
}
