/**
 * What a pass over all partitions says of those that fail: each was passed over, its work is not done, and it counts as
 * an error of the pass.
 */
import type { Needs } from "../services.ts";
import type { DutyPass } from "./duty.ts";

export function passedOver({ store }: Needs<"store">, errors = 0): Pick<DutyPass, "errors" | "missing"> {
  const missing = (store.missing?.() ?? []).map(({ number }) => number);
  return missing.length === 0 ? { errors } : { errors: errors + missing.length, missing };
}
