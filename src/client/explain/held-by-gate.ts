/**
 * Ready jobs that a limit, a budget, their group or their queue holds back. One call reads the gates of all given jobs;
 * a second one finds the holders of full groups (group-holders.ts). The policy of a job names the limits and budgets of
 * its route; its lane names its group and keys.
 */
import type { Needs } from "../../engine/services.ts";
import { budgetGateKey, gatesToPass, isQueueGate, limitGateKey } from "../../model/limits/gate.ts";
import { heldBack } from "../../model/limits/held.ts";
import type { HeldBack } from "../../model/limits/held.ts";
import { readBody } from "../../model/limits/limit.ts";
import { readKeyUse } from "../../model/routing/lane.ts";
import type { KeyUse } from "../../model/routing/lane.ts";
import type { Gate, JobRecord } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import { withFailedHolders } from "./group-holders.ts";
import { unlessMissing } from "../jobs/unless-missing.ts";

export interface HeldByGate extends Omit<HeldBack, "until" | "why"> {
  /** When the job is expected to be free; null if a returned permit or an operator decides that. */
  readonly until: Date | null;
}

/** @returns what holds each job back; null for one that is not held. */
export async function readHeldByGate(
  needs: Needs<"store" | "policies">,
  records: readonly JobRecord[],
): Promise<readonly (HeldBack | null)[]> {
  const usesOf = ({ state, queue, policy, laneGates }: JobRecord): readonly KeyUse[] => {
    if (state !== "ready") return [];
    const { limits, budgets } = needs.policies.read(policy);
    const gates = [
      ...budgets.map((name) => ({ key: budgetGateKey(name), weight: 1 })),
      ...limits.map(([name, weight]) => ({ key: limitGateKey(name), weight })),
    ];
    return [...routeUses({ queue, gates }), ...(laneGates ?? []).map(readKeyUse)];
  };
  const held = await readRefusing(needs.store, records.map(usesOf));
  return withFailedHolders(needs.store, held);
}

/** The uses that a job asks of the gates of its route. */
export function routeUses(route: Parameters<typeof gatesToPass>[0]): readonly KeyUse[] {
  return gatesToPass(route).map((use) => ({ ...use, cap: null }));
}

/** @returns for each list of uses the gate that refuses it now; null if none does. */
export async function readRefusing(
  store: Pick<Store, "readGates" | "missing">,
  uses: readonly (readonly KeyUse[])[],
): Promise<readonly (HeldBack | null)[]> {
  const keys = [...new Set(uses.flat().map(({ key }) => key))];
  if (keys.length === 0) return uses.map(() => null);
  const nobody = { gates: [], cursor: null, now: 0 };
  const { gates, now } = await unlessMissing(store, () => store.readGates({ keys, mayFail: true }), nobody);
  const byKey = new Map(gates.map((gate) => [gate.key, gate]));
  return uses.map((asked) => {
    const known = asked.flatMap(({ key, weight, cap }) => {
      const gate = byKey.get(key);
      return gate === undefined ? [] : [{ ...gate, weight, cap: cap ?? gate.cap, ...spentBy(gate) }];
    });
    return heldBack(known, now);
  });
}

/** The budget that has closed the gate of a queue, unless somebody has paused the queue for longer. */
function spentBy({ key, body, closedUntil }: Gate): { readonly spent?: string } {
  if (closedUntil === null || !isQueueGate(key)) return {};
  const { spent } = readBody(body);
  return spent?.until === closedUntil ? { spent: spent.budget } : {};
}

export function viewHeldByGate({ why: _why, until, ...rest }: HeldBack): HeldByGate {
  return { ...rest, until: until === null ? null : new Date(until) };
}
