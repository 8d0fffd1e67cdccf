/**
 * The lane of a job (model/routing/lane.ts) from its group and the keys of its limits and budgets. Who has a group
 * stands in the lane of the group, over all names of the queue. Who asks for keys only stands with those of its route
 * that ask for the same ones.
 *
 * What the keys are is computed from the input of each job, before any write; the rest is planned once per definition.
 */
import { digestText } from "../../codec/digest.ts";
import { budgetGateKey, limitGateKey } from "../../model/limits/gate.ts";
import type { GateUse } from "../../model/limits/gate.ts";
import { groupGateKey, groupLane, keyedGate, keysLane, writeKeyUse } from "../../model/routing/lane.ts";
import type { LaneFields } from "../../model/routing/lane.ts";
import { routeNumber } from "../../model/routing/route.ts";
import { keyFor, stepFor } from "./group.ts";
import type { ReadGroup } from "./group.ts";
import type { AnyBudgetUse } from "../budgets/budget-definition.ts";
import type { AnyLimitUse } from "../limits/limit-definition.ts";

export interface LanePlan {
  readonly queue: string;
  readonly name: string;
  readonly requires: readonly string[];
  readonly gates: readonly GateUse[];
  readonly group: ReadGroup | null;
  readonly limits: readonly AnyLimitUse[];
  /** Absent for none. */
  readonly budgets?: readonly AnyBudgetUse[];
}

/** @returns from an input to its lane; null where no job of the plan has one. */
export function planLane(plan: LanePlan): ((input: unknown) => LaneFields) | null {
  const { queue, name, requires, gates, group, limits, budgets = [] } = plan;
  const what = `enqueue ${JSON.stringify(name)}`;
  const uses = [
    ...budgets.map(({ budget: { name: of }, key }) => ({ of, gate: budgetGateKey(of), weight: 1, key })),
    ...limits.map(({ limit: { name: of }, weight, key }) => ({ of, gate: limitGateKey(of), weight, key })),
  ];
  const keyed = uses.flatMap(({ of, key, ...use }) =>
    key === null ? [] : [{ ...use, key, what: `${what}: key of ${of}` }],
  );
  const usesOf = (input: unknown): string[] =>
    keyed.map((use) =>
      writeKeyUse({
        key: keyedGate(use.gate, keyFor(use.key, input, use.what)),
        weight: use.weight,
        cap: null,
      }),
    );
  if (group !== null) return (input) => groupedLane(queue, group, { input, what, uses: usesOf(input) });
  if (keyed.length === 0) return null;
  const route = routeNumber(queue, name, requires, gates, "rank");
  return (input) => {
    const uses = usesOf(input);
    // Several keys together may be longer than what an index takes.
    const alike = uses.length === 1 ? (uses[0] as string) : digestText(uses.join("\n"));
    return { laneKey: keysLane(route, alike), laneStep: null, laneGates: uses };
  };
}

function groupedLane(
  queue: string,
  group: ReadGroup,
  { input, what, uses }: { readonly input: unknown; readonly what: string; readonly uses: readonly string[] },
): LaneFields {
  const key = keyFor(group.key, input, `${what}: group key`);
  const cap = group.concurrency;
  const own = cap === null ? [] : [writeKeyUse({ key: keyedGate(groupGateKey(queue), key), weight: 1, cap })];
  const laneGates = [...own, ...uses];
  return {
    laneKey: groupLane(queue, key, group.weight === null ? "rank" : "turn"),
    laneStep: group.weight === null ? null : stepFor(group.weight, input, `${what}: group weight`),
    laneGates: laneGates.length === 0 ? null : laneGates,
  };
}
