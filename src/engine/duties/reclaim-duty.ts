/**
 * Reclaim: a lease that has run out by the store's clock is taken from its worker, which is gone, paused or cut off.
 * The job comes back with backoff, or ends in failed when it has lost too many leases.
 *
 * A lease of a live worker of this very process is left to that worker: it renews late rather than losing its work.
 */
import { afterCrash, lostLeases } from "../../model/job/after-run.ts";
import type { Engine } from "../engine.ts";
import type { HeldLeases } from "../attempts/held-leases.ts";
import { modelSources } from "../policies/model-sources.ts";
import { dueDuty, policyOfDue } from "./due-duty.ts";
import type { Duty } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";

export function reclaimDuty(engine: Engine, leases: HeldLeases, tuning: Tuning): Duty {
  return dueDuty(engine, {
    tuning,
    name: "reclaim",
    clock: "lease",
    applied({ id, attempt, owner, lateMs, policy }, state) {
      const fields = { id, attempt, worker: owner, lateMs };
      if (engine.policies.read(policy).isPermit)
        engine.log.warn("lease expired, a permit that somebody held is free again", fields);
      else if (state === "failed") engine.log.error(`job failed for good: crash-loop, ${lostLeases}`, fields);
      else engine.log.warn("lease expired, job reclaimed", fields);
    },
    decide(job, now) {
      if (leases.isHeldHere(job)) return null;
      const ended = { ...job, policy: policyOfDue(engine, job) };
      const { next, attempts } = afterCrash(ended, job.started, modelSources(engine, now, job.owner ?? ""));
      return {
        guard: { states: ["running"], rev: job.rev, fence: job.fence, rang: "lease" },
        next,
        attempts,
      };
    },
  });
}
