/**
 * The result of a pass for partitions that fail: each was skipped, its work is not done, and it counts as one error.
 */
import type { Needs } from "../services.ts";
import type { DutyPass } from "./duty.ts";

export function passedOver({ store }: Needs<"store">, errors = 0): Pick<DutyPass, "errors" | "missing"> {
  const missing = (store.missing?.() ?? []).map(({ number }) => number);
  return missing.length === 0 ? { errors } : { errors: errors + missing.length, missing };
}
