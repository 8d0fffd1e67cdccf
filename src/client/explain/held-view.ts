/**
 * What holds a ready job back although a slot may be free. A held job stays `ready`; lists, counts and explain say what
 * it waits for. A closed gate is named before a missing capability, because no worker could help.
 */
import type { Needs } from "../../engine/services.ts";
import type { JobRecord } from "../../store/records.ts";
import { readHeldByCapability } from "./held-by-capability.ts";
import type { HeldByCapability } from "./held-by-capability.ts";
import { readHeldByGate, viewHeldByGate } from "./held-by-gate.ts";
import type { HeldByGate } from "./held-by-gate.ts";

export type Held = HeldByGate | HeldByCapability;

/** @returns what holds each job; null for one that is not held. */
export async function readHeld(
  needs: Needs<"store" | "policies">,
  records: readonly JobRecord[],
): Promise<readonly (Held | null)[]> {
  const [byGate, byCapability] = await Promise.all([
    readHeldByGate(needs, records),
    readHeldByCapability(needs.store, records),
  ]);
  return byGate.map((held, at) => (held === null ? (byCapability[at] ?? null) : viewHeldByGate(held)));
}
