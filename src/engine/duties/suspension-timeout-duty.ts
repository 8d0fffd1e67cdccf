/**
 * Suspension timeout: a suspended run whose time has come is ready again. Its worker finds in the journal which wait is
 * over, and its handler decides what that means.
 */
import { resume } from "../durable/append-change.ts";
import { dueDuty } from "./due-duty.ts";
import type { DueDutyNeeds } from "./due-duty.ts";
import type { Duty } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";

export function suspensionTimeoutDuty(needs: DueDutyNeeds, tuning: Tuning): Duty {
  return dueDuty(needs, {
    tuning,
    name: "suspension-timeout",
    clock: "wake",
    decide: () => ({ guard: { states: ["suspended"], rang: "wake" }, next: resume }),
  });
}
