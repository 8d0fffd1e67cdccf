/**
 * Expiry: a deadline ends a job from any live state, a time-to-live only before its first start. Two duties of one
 * shape, so that a flood of one never delays the other.
 */
import { afterExpiry } from "../../model/job/after-run.ts";
import { liveStates } from "../../model/job/job-state.ts";
import type { Engine } from "../engine.ts";
import { dueDuty, policyOfDue } from "./due-duty.ts";
import type { Duty } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";

export function deadlineDuty(engine: Engine, tuning: Tuning): Duty {
  return expiryDuty(engine, tuning, "deadline");
}

export function timeToLiveDuty(engine: Engine, tuning: Tuning): Duty {
  return expiryDuty(engine, tuning, "ttl");
}

function expiryDuty(engine: Engine, tuning: Tuning, clock: "deadline" | "ttl"): Duty {
  return dueDuty(engine, {
    tuning,
    name: clock === "deadline" ? "deadline" : "time-to-live",
    clock,
    decide: (job) => ({
      guard: { states: liveStates, rang: clock },
      next: afterExpiry(policyOfDue(engine, job), clock),
    }),
  });
}
