/**
 * Gates over partitions. A limit lies where all its jobs lie (model/placement.ts), so one partition decides. A queue's
 * gate is in every partition: a put is answered when all of them have it. Of its cap and its rate each partition has a
 * share, so that together they are never exceeded.
 */
import { MillraceError } from "../../model/error.ts";
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
  const keys = puts.map(({ key }) => key).filter(isQueueGate);
  const others = keys.length === 0 ? [] : partitions.filter((partition) => partition !== home);
  // Before the put at home: a copy that is as it was then has been written by nobody who came there later.
  const copies = await Promise.all(others.map((other) => versionsIn(other, keys)));
  const answers = await home.store.putGates(puts.map((put) => partOf(put, home.number, of)));
  const accepted = puts.flatMap((put, at): Accepted[] => {
    const answer = answers[at];
    return answer?.kind === "ok" && isQueueGate(put.key) ? [{ put, version: answer.version }] : [];
  });
  await Promise.all(others.map((other, at) => follow(other, home, accepted, copies[at] as Versions, of)));
  return answers;
}

/** A put that its guard let pass at home, with the version that it has there: the one order of all puts. */
interface Accepted {
  readonly put: GatePut;
  readonly version: number;
}
type Versions = ReadonlyMap<string, number>;

async function versionsIn({ store }: Partition, keys: readonly string[]): Promise<Versions> {
  const { gates } = await store.readGates({ keys });
  return new Map(gates.map(({ key, version }) => [key, version]));
}

/** As many operators as may change one queue in the same moment. */
const triesMax = 100;

/**
 * Brings what was put at home to another partition. Puts of several processes may come there in any order, so a copy is
 * written only as it was known, and somebody who finds it changed looks home: the last put there writes its copies
 * again, any other leaves them to it. So all partitions end with the last one.
 */
async function follow(
  other: Partition,
  home: Partition,
  accepted: readonly Accepted[],
  known: Versions,
  of: number,
): Promise<void> {
  let left = accepted;
  let copies = known;
  for (let tries = 0; left.length > 0; tries++) {
    if (tries === triesMax)
      throw new MillraceError("version-conflict", "The queue's settings change all the time; try again.");
    const puts = left.map(({ put }) => {
      const guard = { version: copies.get(put.key) ?? 0 };
      return { ...partOf(put, other.number, of), guard };
    });
    const answers = await other.store.putGates(puts);
    copies = new Map(puts.map(({ key }, at) => [key, answers[at]?.version ?? 0]));
    const refused = left.filter((_, at) => answers[at]?.kind === "changed");
    if (refused.length === 0) return;
    const last = await versionsIn(
      home,
      refused.map(({ put }) => put.key),
    );
    left = refused.filter(({ put, version }) => last.get(put.key) === version);
  }
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
