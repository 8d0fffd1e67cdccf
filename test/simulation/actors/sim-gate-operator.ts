/**
 * What operators do about who may run next: pause and resume queues, bound them, edit, throttle and reset limits. What
 * they were told of closing and opening goes into the history.
 */
import { isMillraceError } from "../../../src/model/error.ts";
import { foreverMs, limitGateKey, queueGateKey } from "../../../src/model/limits/gate.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { GateAct } from "../../history/history.ts";
import type { Network } from "../faulty-store.ts";
import { drawCap, drawRate } from "../gating.ts";
import type { SimNode } from "./sim-node.ts";

const triesMax = 4;
/** Of the last acts: until whoever still takes a bucket over has done so. */
const lastTriesMax = 60;

/** One act. Never rejects: every refusal is a part of the run. */
export async function operateGates(network: Network, node: SimNode, random: SeededRandom): Promise<void> {
  const { plan } = network;
  const { limits, queues } = node.mill;
  const queue = `q${random.whole(0, plan.queues - 1)}`;
  const { name } = random.pick(plan.gating.limits);
  switch (random.whole(0, 7)) {
    case 0:
    case 1:
    case 2:
      await pause(network, node, queue);
      await node.process.sleep(random.whole(0, 8000));
      return resume(network, node, queue);
    case 3:
      return void (await pause(network, node, queue, random.whole(1, 5000)));
    case 4:
      // Each partition of a store needs a share of it.
      return unlessRefused(() =>
        queues.set(queue, {
          concurrency: random.pick([null, random.whole(3, 8)]),
          rate: random.pick([null, { max: random.whole(5, 50), per: 1000, burst: random.whole(3, 8) }]),
        }),
      );
    case 5:
      return unlessRefused(() =>
        limits.edit(name, random.chance(0.7) ? { concurrency: drawCap(random) } : { rate: drawRate(random) }),
      );
    case 6:
      return void (await throttle(
        network,
        node,
        name,
        random.chance(0.7) ? random.whole(1, 5000) : undefined,
      ));
    default:
      return void (await reset(network, node, name));
  }
}

/**
 * As an operator does at last: what is shown as paused or bounded is opened, and so is everything of which somebody was
 * not told what became of his change. What is shown as open must be so.
 */
export async function openAllGates(network: Network, node: SimNode): Promise<void> {
  const { queues, gating } = network.plan;
  if (gating.share === 0) return;
  for (let number = 0; number < queues; number++)
    await untilDone(node, () => openQueue(network, node, `q${number}`));
  for (const { name } of gating.limits) await untilDone(node, () => reset(network, node, name));
}

async function openQueue(network: Network, node: SimNode, queue: string): Promise<void> {
  const { paused, concurrency, rate } = await node.mill.queues.settings(queue);
  const isUnsure = mayBeHalfPut(network, queueGateKey(queue));
  if (paused || isUnsure) await resume(network, node, queue);
  if (concurrency !== null || rate !== null || isUnsure)
    await node.mill.queues.set(queue, { concurrency: null, rate: null });
}

/** Again and again: also after all faults a call can meet a bucket's writer that another one takes over. */
export async function untilDone(node: SimNode, act: () => Promise<unknown>): Promise<void> {
  for (let tries = 0; tries < lastTriesMax; tries++) {
    try {
      if ((await act()) !== "again") return;
    } catch (error) {
      if (!isMillraceError(error)) throw error;
      if (!error.retryable) return;
    }
    await node.process.sleep(500);
  }
}

/** A process that was killed, or a call that was lost, may have left partitions of a store with different gates. */
const mayBeHalfPut = ({ plan, history }: Network, key: string): boolean =>
  plan.isOn.crash ||
  plan.isOn.poison ||
  history.some(
    (call) => call.kind === "putGates" && call.seen !== "ok" && call.request.some((put) => put.key === key),
  );

const pause = (network: Network, node: SimNode, queue: string, forMs?: number): Promise<EmittedEvent> =>
  recordAct(network, node, { kind: "close-gate", key: queueGateKey(queue) }, async () => {
    const { pausedUntil } = await node.mill.queues.pause(queue, forMs === undefined ? {} : { for: forMs });
    // A short pause may be over before its answer is read, and looks as one without an end.
    return forMs === undefined ? foreverMs : (pausedUntil?.getTime() ?? 0);
  });

const throttle = (
  network: Network,
  node: SimNode,
  name: string,
  retryAfter?: number,
): Promise<EmittedEvent> =>
  recordAct(network, node, { kind: "close-gate", key: limitGateKey(name) }, async () => {
    const options = retryAfter === undefined ? {} : { retryAfter };
    const { coolingUntil } = await node.mill.limits.throttle(name, options);
    return coolingUntil?.getTime() ?? 0;
  });

/** Again and again, as an operator does who was not told that it is so. */
async function resume(network: Network, node: SimNode, queue: string): Promise<void> {
  const act = { kind: "open-gate", key: queueGateKey(queue) } as const;
  for (let tries = 0; tries < triesMax; tries++) {
    const told = await recordAct(network, node, act, async () => {
      await node.mill.queues.resume(queue);
      return null;
    });
    if (told === "ok") return;
    await node.process.sleep(100);
  }
}

const reset = (network: Network, node: SimNode, name: string): Promise<EmittedEvent> =>
  recordAct(network, node, { kind: "open-gate", key: limitGateKey(name) }, async () => {
    await node.mill.limits.reset(name);
    return null;
  });

/** What an operator was told of an act: "again" if the same call may succeed later. */
export type EmittedEvent = "ok" | "again" | "refused";

/** @param run gives the time until which the gate is closed. */
export async function recordAct(
  { history, time }: Network,
  node: SimNode,
  act: Pick<GateAct, "kind" | "key">,
  run: () => Promise<number | null>,
): Promise<EmittedEvent> {
  const times = { invokedUs: time.elapsedUs, answeredUs: null, order: null };
  const entry: GateAct = { ...act, actor: node.process.name, seen: "unknown", until: null, ...times };
  history.push(entry);
  try {
    entry.until = await run();
  } catch (error) {
    if (!isMillraceError(error)) throw error;
    return error.retryable ? "again" : "refused";
  }
  entry.seen = "ok";
  entry.answeredUs = time.elapsedUs;
  return "ok";
}

export async function unlessRefused(run: () => Promise<unknown>): Promise<void> {
  try {
    await run();
  } catch (error) {
    if (!isMillraceError(error)) throw error;
  }
}
