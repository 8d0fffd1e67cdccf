/**
 * Puts of gates over partitions: the gate's home (gate-places.ts) checks the guard, the others follow it, and a put is
 * answered when all of them have it. Puts of several processes may come to the others in any order; the versions at
 * home are the one order of all puts, and every partition ends with the last one.
 *
 * The bounds of a limit's keys are sent to the others before they are put at home: a put that fails half-way leaves no
 * key unbounded that the home considers bounded.
 */
import { MillraceError } from "../../model/error.ts";
import { isBudgetGate, isQueueGate, shareOf } from "../../model/limits/gate.ts";
import { isKeyedGate } from "../../model/routing/lane.ts";
import type { Placement } from "../../model/routing/placement.ts";
import type { GatePutAnswer } from "../operations.ts";
import type { GatePut } from "../records.ts";
import { everywhere, placesOf } from "./gate-places.ts";
import type { Partition, PartitionedCalls } from "./partition.ts";

/** The number of operators that may change one gate at the same moment. */
const triesMax = 100;

export async function putGates(
  { partitions }: PartitionedCalls,
  placement: Placement,
  puts: readonly GatePut[],
): Promise<readonly GatePutAnswer[]> {
  const answers: GatePutAnswer[] = [];
  for (const put of puts) answers.push(await putGate(partitions, placement, put));
  return answers;
}

async function putGate(
  partitions: readonly Partition[],
  placement: Placement,
  put: GatePut,
): Promise<GatePutAnswer> {
  const isOfKeys = await saysOfKeys(partitions[placement.ofGates] as Partition, put);
  const [home, ...others] = isOfKeys
    ? everywhere(partitions, placement)
    : placesOf(partitions, placement, put.key);
  const of = partitions.length;
  const { emits: _told, ...copied } = put;
  // Read before the put at home: a copy that has not changed since was not written by a later put.
  const copies = await Promise.all(
    others.map(async (other) =>
      isOfKeys ? (await putAt(other, { ...copied, guard: "any" }, of)).version : versionIn(other, put.key),
    ),
  );
  const answer = await putAt(home as Partition, put, of);
  if (answer.kind === "changed") return answer;
  const isLast = async (): Promise<boolean> =>
    (await versionIn(home as Partition, put.key)) === answer.version;
  await Promise.all(others.map((other, at) => follow(other, copied, { copy: copies[at] ?? 0, of, isLast })));
  return answer;
}

/**
 * Copies the gate from home to another partition. A copy is written only if it is as it was read. If it has changed,
 * the home decides: the last put there writes its copies again, any other put leaves them.
 */
async function follow(
  other: Partition,
  put: GatePut,
  given: { readonly copy: number; readonly of: number; readonly isLast: () => Promise<boolean> },
): Promise<void> {
  let { copy } = given;
  for (let tries = 0; tries < triesMax; tries++) {
    const answer = await putAt(other, { ...put, guard: { version: copy } }, given.of);
    if (answer.kind === "ok" || !(await given.isLast())) return;
    copy = answer.version;
  }
  throw new MillraceError("version-conflict", "The gate changes all the time; try again.");
}

async function putAt({ store, number }: Partition, put: GatePut, of: number): Promise<GatePutAnswer> {
  const part = isQueueGate(put.key) ? { ...put, ...shareOf(put, number, of) } : put;
  const [answer] = await store.putGates([part]);
  return answer as GatePutAnswer;
}

async function versionIn({ store }: Partition, key: string): Promise<number> {
  const { gates } = await store.readGates({ keys: [key] });
  return gates[0]?.version ?? 0;
}

/** Whether the put of a limit sets or removes the bounds of its keys. */
async function saysOfKeys(home: Partition, { key, perKey = null }: GatePut): Promise<boolean> {
  if (isQueueGate(key) || isBudgetGate(key) || isKeyedGate(key)) return false;
  if (perKey !== null) return true;
  const { gates } = await home.store.readGates({ keys: [key] });
  return gates.some((gate) => gate.perKey !== null);
}
