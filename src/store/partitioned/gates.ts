/**
 * Gates over partitions. A limit lies where all its jobs lie (model/placement.ts), so one partition decides. A queue's
 * gate is in every partition: a put is answered when all of them have it. Of its cap and its rate each partition has a
 * share, so that together they are never exceeded.
 */
import { isQueueGate, shareOf } from "../../model/gate.ts";
import type { GatePutAnswer, ReadGatesAnswer, ReadGatesRequest } from "../operations.ts";
import type { Gate, GatePut } from "../records.ts";
import { askAll } from "./partition.ts";
import type { Partition, PartitionedCalls } from "./partition.ts";

export async function putGates(
  { partitions }: PartitionedCalls,
  home: Partition,
  puts: readonly GatePut[],
): Promise<readonly GatePutAnswer[]> {
  const of = partitions.length;
  // The guard is asked in one partition; the others follow it.
  const answers = await home.store.putGates(puts.map((put) => partOf(put, home.number, of)));
  const accepted = puts.filter((put, at) => answers[at]?.kind === "ok" && isQueueGate(put.key));
  if (accepted.length > 0)
    await Promise.all(
      partitions
        .filter((partition) => partition !== home)
        .map(({ store, number }) =>
          store.putGates(accepted.map((put) => ({ ...partOf(put, number, of), guard: "any" }))),
        ),
    );
  return answers;
}

export async function readGates(
  calls: PartitionedCalls,
  home: Partition,
  request: ReadGatesRequest,
): Promise<ReadGatesAnswer> {
  const answer = await home.store.readGates(request);
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
