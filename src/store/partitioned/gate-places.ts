/**
 * In which partitions a gate is. The first of them is its home, which checks the guard:
 *
 *   of a limit    where all its jobs lie (model/routing/placement.ts), so one partition decides; the bounds of its
 *                 keys are sent to every partition, because its keys may lie in any
 *   of a key      where its name places it, and where limits lie: a job takes from it in one of the two
 *   of a queue    in every partition
 *   of a budget   in every partition, and so are those of its keys: they bound nothing, so nothing is to be added up
 */
import { isBudgetGate, isQueueGate } from "../../model/limits/gate.ts";
import { isKeyedGate, keyOfGate } from "../../model/routing/lane.ts";
import type { Placement } from "../../model/routing/placement.ts";
import type { Partition } from "./partition.ts";

export function placesOf(
  partitions: readonly Partition[],
  placement: Placement,
  key: string,
): readonly Partition[] {
  const home = partitions[placement.ofGates] as Partition;
  if (isQueueGate(key) || isBudgetGate(key)) return everywhere(partitions, placement);
  if (!isKeyedGate(key)) return [home];
  const ofKey = partitions[placement.ofName(keyOfGate(key))] as Partition;
  return ofKey === home ? [home] : [ofKey, home];
}

export function everywhere(partitions: readonly Partition[], { ofGates }: Placement): readonly Partition[] {
  const home = partitions[ofGates] as Partition;
  return [home, ...partitions.filter((partition) => partition !== home)];
}
