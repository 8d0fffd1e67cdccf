/**
 * Expiry: a deadline ends a job from any live state, a time-to-live only before its first start. They are two duties of
 * one form, so a flood of one never delays the other.
 */
import { afterExpiry } from "../../model/job/after-run.ts";
import { liveStates } from "../../model/job/job-state.ts";
import { dueDuty } from "./due-duty.ts";
import type { DueDutyNeeds } from "./due-duty.ts";
import type { Duty } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";

export function deadlineDuty(needs: DueDutyNeeds, tuning: Tuning): Duty {
  return expiryDuty(needs, tuning, "deadline");
}

export function timeToLiveDuty(needs: DueDutyNeeds, tuning: Tuning): Duty {
  return expiryDuty(needs, tuning, "ttl");
}

function expiryDuty(needs: DueDutyNeeds, tuning: Tuning, clock: "deadline" | "ttl"): Duty {
  return dueDuty(needs, {
    tuning,
    name: clock === "deadline" ? "deadline" : "time-to-live",
    clock,
    decide: ({ policy }) => ({
      guard: { states: liveStates, rang: clock },
      next: afterExpiry(policy, clock),
    }),
  });
}
