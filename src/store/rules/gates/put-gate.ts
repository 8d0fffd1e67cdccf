/** The gate after a put (records.ts, GatePut): all but its token time is replaced, under its version. */
import type { GatePutAnswer } from "../../operations.ts";
import type { Gate, GatePut } from "../../records.ts";
import { dueAtOf } from "../timer.ts";

type Kept = Pick<Gate, "version" | "tatUs">;

/** @param kept the present gate; null for none. */
export function putGate(
  kept: Kept | null,
  { key, guard, cap, rate, closed, isIntakeClosed, perKey = null, body, emptiesRate }: GatePut,
  now: number,
):
  | (GatePutAnswer & { readonly kind: "changed" })
  | { readonly kind: "written"; readonly gate: Omit<Gate, "held"> } {
  const { version, tatUs } = kept ?? { version: 0, tatUs: 0 };
  if (guard !== "any" && guard.version !== version) return { kind: "changed", version };
  const emptyUs = emptiesRate === true && rate !== null ? now * 1000 + rate.burstUs : 0;
  const closedUntil = closed === null ? null : dueAtOf(closed, now);
  const gate = { key, version: version + 1, cap, rate, closedUntil, isIntakeClosed, perKey, body };
  return { kind: "written", gate: { ...gate, tatUs: Math.max(tatUs, emptyUs) } };
}
