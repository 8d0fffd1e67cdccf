/**
 * Gates over partitions. Each has a home, where its guard is asked, and partitions that must know it too:
 *
 *   of a limit    where all its jobs lie (model/placement.ts), so one partition decides; what it says of each key is told
 *                 to every partition, because its keys may lie in any
 *   of a key      where its name says, and where limits lie: a job takes from it in the one or in the other
 *   of a queue    in every partition. Of its cap and its rate each has a share, so that together they are never exceeded
 *
 * A put is answered when all of them have it. What it says of keys is told to the others first: a put that failed half
 * way leaves no key unbounded that the home believes to be bounded.
 */
import { isQueueGate, shareOf } from "../../model/gate.ts";
import { isKeyedGate, keyOfGate } from "../../model/lane.ts";
import type { Placement } from "../../model/placement.ts";
import type { GatePutAnswer, ReadGatesAnswer, ReadGatesRequest } from "../operations.ts";
import type { Gate, GatePut } from "../records.ts";
import { byteOrder } from "./look.ts";
import { askAll } from "./partition.ts";
import type { Partition, PartitionedCalls } from "./partition.ts";

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
  const putAt = async ({ store, number }: Partition, guard: GatePut["guard"]): Promise<GatePutAnswer> => {
    const [answer] = await store.putGates([{ ...partOf(put, number, partitions.length), guard }]);
    return answer as GatePutAnswer;
  };
  const follow = (): Promise<unknown> => Promise.all(others.map((each) => putAt(each, "any")));
  if (isOfKeys) await follow();
  const answer = await putAt(home as Partition, put.guard);
  if (answer.kind === "ok" && !isOfKeys) await follow();
  return answer;
}

/** Whether the put of a limit says something of its keys, or takes back what was said. */
async function saysOfKeys(home: Partition, { key, perKey = null }: GatePut): Promise<boolean> {
  if (isQueueGate(key) || isKeyedGate(key)) return false;
  if (perKey !== null) return true;
  const { gates } = await home.store.readGates({ keys: [key] });
  return gates.some((gate) => gate.perKey !== null);
}

/** Where a gate is, its home first. */
function placesOf(partitions: readonly Partition[], placement: Placement, key: string): readonly Partition[] {
  const home = partitions[placement.ofGates] as Partition;
  if (isQueueGate(key)) return everywhere(partitions, placement);
  if (!isKeyedGate(key)) return [home];
  const ofKey = partitions[placement.ofName(keyOfGate(key))] as Partition;
  return ofKey === home ? [home] : [ofKey, home];
}

function everywhere(partitions: readonly Partition[], { ofGates }: Placement): readonly Partition[] {
  const home = partitions[ofGates] as Partition;
  return [home, ...partitions.filter((partition) => partition !== home)];
}

export async function readGates(
  calls: PartitionedCalls,
  placement: Placement,
  request: ReadGatesRequest,
): Promise<ReadGatesAnswer> {
  const home = calls.partitions[placement.ofGates] as Partition;
  const readAt = async (asked: ReadGatesRequest): Promise<ReadGatesAnswer> =>
    withShares(calls, await home.store.readGates(asked));
  const keyed = "keys" in request ? request.keys.filter(isKeyedGate) : [];
  if (!("keys" in request) || keyed.length === 0) return readAt(request);
  const [answer, ofKeys] = await Promise.all([
    readAt({ keys: request.keys.filter((key) => !isKeyedGate(key)) }),
    readKeyed(calls.partitions, placement, keyed),
  ]);
  const gates = [...answer.gates, ...ofKeys].toSorted((one, other) => byteOrder(one.key, other.key));
  return { ...answer, gates };
}

/** The parts of a queue's gate as one. */
async function withShares(calls: PartitionedCalls, answer: ReadGatesAnswer): Promise<ReadGatesAnswer> {
  const keys = answer.gates.map(({ key }) => key).filter(isQueueGate);
  if (keys.length === 0) return answer;
  const others = await askAll(calls, "readGates", (store) => store.readGates({ keys }));
  const copies = others.flatMap(({ answer: { gates } }) => gates);
  const gates = answer.gates.map((gate) =>
    isQueueGate(gate.key)
      ? joined(
          gate,
          copies.filter(({ key }) => key === gate.key),
        )
      : gate,
  );
  return { ...answer, gates };
}

async function readKeyed(
  partitions: readonly Partition[],
  placement: Placement,
  keys: readonly string[],
): Promise<readonly Gate[]> {
  const asked = new Map<Partition, string[]>();
  for (const key of keys)
    for (const partition of placesOf(partitions, placement, key))
      asked.set(partition, [...(asked.get(partition) ?? []), key]);
  const answers = await Promise.all(
    [...asked].map(async ([partition, own]) => ({
      partition,
      gates: (await partition.store.readGates({ keys: own })).gates,
    })),
  );
  return keys.flatMap((key) => {
    const [home] = placesOf(partitions, placement, key);
    const parts = answers.flatMap(({ partition, gates }) =>
      gates.filter((gate) => gate.key === key).map((gate) => ({ gate, isHome: partition === home })),
    );
    const first = parts.find(({ isHome }) => isHome) ?? parts[0];
    if (first === undefined) return [];
    const all = parts.map(({ gate }) => gate);
    const held = all.reduce((sum, gate) => sum + gate.held, 0);
    const version = first.isHome ? first.gate.version : 0;
    return [{ ...first.gate, version, held, tatUs: Math.max(...all.map(({ tatUs }) => tatUs)) }];
  });
}

function partOf(put: GatePut, number: number, of: number): GatePut {
  return isQueueGate(put.key) ? { ...put, ...shareOf(put, number, of) } : put;
}

/** All of a gate, from its parts. */
function joined(first: Gate, parts: readonly Gate[]): Gate {
  const sum = (of: (gate: Gate) => number): number => parts.reduce((total, gate) => total + of(gate), 0);
  return {
    ...first,
    cap: first.cap === null ? null : sum(({ cap }) => cap ?? 0),
    rate:
      first.rate === null ? null : { stepUs: first.rate.stepUs / parts.length, burstUs: first.rate.burstUs },
    held: sum(({ held }) => held),
    tatUs: Math.min(...parts.map(({ tatUs }) => tatUs)),
  };
}
