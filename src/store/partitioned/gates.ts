/**
 * Reading gates over partitions. Each partition has a share of a queue's cap and rate, so that together they are never
 * exceeded. The sum is shown. A key may be held in two partitions (gate-places.ts), which are added up.
 */
import { MillraceError } from "../../model/error.ts";
import { isQueueGate } from "../../model/limits/gate.ts";
import { isKeyedGate } from "../../model/routing/lane.ts";
import type { Placement } from "../../model/routing/placement.ts";
import type { ReadGatesAnswer, ReadGatesRequest } from "../operations.ts";
import type { Gate } from "../records.ts";
import type { Store } from "../store.ts";
import { placesOf } from "./gate-places.ts";
import { byteOrder } from "./merged-reads.ts";
import { askAll, presentOnes, reach } from "./partition.ts";
import type { Partition, PartitionedCalls } from "./partition.ts";

export async function readGates(
  calls: PartitionedCalls,
  placement: Placement,
  request: ReadGatesRequest,
): Promise<ReadGatesAnswer> {
  const home = calls.partitions[placement.ofGates] as Partition;
  const isPatient = !("keys" in request) || request.mayFail !== true;
  const readIn: ReadIn = (partition, asked) =>
    isPatient ? partition.store.readGates(asked) : readHastily(calls, partition, asked);
  const readAt = async (asked: ReadGatesRequest): Promise<ReadGatesAnswer> =>
    withShares(calls, await readIn(home, asked));
  const keyed = "keys" in request ? request.keys.filter(isKeyedGate) : [];
  if (!("keys" in request) || keyed.length === 0) return readAt(request);
  const [answer, ofKeys] = await Promise.all([
    readAt({ keys: request.keys.filter((key) => !isKeyedGate(key)) }),
    readKeyed({ partitions: calls.partitions, readIn }, placement, keyed),
  ]);
  const gates = [...answer.gates, ...ofKeys].toSorted((one, other) => byteOrder(one.key, other.key));
  return { ...answer, gates };
}

type ReadIn = (partition: Partition, request: ReadGatesRequest) => Promise<ReadGatesAnswer>;

async function readHastily(
  { timeout }: PartitionedCalls,
  partition: Partition,
  request: ReadGatesRequest,
): Promise<ReadGatesAnswer> {
  const call = (store: Store): Promise<ReadGatesAnswer> => store.readGates(request);
  const reached =
    presentOnes([partition]).length === 0
      ? null
      : await reach(partition, { name: "readGates", call, timeout: timeout.long });
  if (reached?.kind === "answered") return reached.answer;
  if (reached?.kind === "failed") throw reached.error;
  throw new MillraceError("store-unavailable", `Partition ${partition.number} does not answer.`);
}

/** The shares of a queue's gate as one gate. */
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
  { partitions, readIn }: { readonly partitions: readonly Partition[]; readonly readIn: ReadIn },
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
      gates: (await readIn(partition, { keys: own })).gates,
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

/** One gate from its parts. */
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
