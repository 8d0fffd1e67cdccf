/**
 * What operators do about keys of limits: edit what bounds each of them or one alone, throttle one, and take it back.
 * What they were told of closing and opening goes into the history.
 */
import { limitGateKey } from "../../../src/model/limits/gate.ts";
import { keyedGate } from "../../../src/model/routing/lane.ts";
import type { BoundEdit } from "../../../src/client/limits.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { Network } from "../faulty-store.ts";
import { drawCap, drawRate } from "../gating.ts";
import { recordAct, unlessRefused, untilDone } from "./sim-gate-operator.ts";
import type { EmittedEvent } from "./sim-gate-operator.ts";
import type { SimNode } from "./sim-node.ts";

/** One act. Never rejects: every refusal is a part of the run. */
export async function operateKeys(network: Network, node: SimNode, random: SeededRandom): Promise<void> {
  const { laning } = network.plan;
  if (laning.limits.length === 0) return;
  const { name } = random.pick(laning.limits);
  const key = random.pick(laning.keys);
  const bounds = drawEdit(random);
  switch (random.whole(0, 5)) {
    case 0:
    case 1:
      return unlessRefused(() => node.mill.limits.edit(name, { perKey: bounds }));
    case 2:
    case 3:
      return unlessRefused(() => node.mill.limits.edit(name, bounds, { key }));
    case 4: {
      const options = random.chance(0.7) ? { retryAfter: random.whole(1, 5000) } : {};
      return void (await recordAct(
        network,
        node,
        { kind: "close-gate", key: gateOf(name, key) },
        async () => {
          const { coolingUntil } = await node.mill.limits.throttle(name, { ...options, key });
          return coolingUntil?.getTime() ?? 0;
        },
      ));
    }
    default:
      return void (await resetKey(network, node, name, key));
  }
}

/** As an operator does at last: every limit and each of its keys is as the code says. */
export async function resetAllKeys(network: Network, node: SimNode): Promise<void> {
  const { limits, keys } = network.plan.laning;
  for (const { name } of limits) {
    await untilDone(node, () => node.mill.limits.reset(name));
    for (const key of keys) await untilDone(node, () => resetKey(network, node, name, key));
  }
}

function drawEdit(random: SeededRandom): BoundEdit {
  const draw = random.next();
  if (draw < 0.2) return { concurrency: null };
  return draw < 0.7 ? { concurrency: drawCap(random) } : { rate: drawRate(random) };
}

const gateOf = (name: string, key: string): string => keyedGate(limitGateKey(name), key);

function resetKey(network: Network, node: SimNode, name: string, key: string): Promise<EmittedEvent> {
  return recordAct(network, node, { kind: "open-gate", key: gateOf(name, key) }, async () => {
    await node.mill.limits.reset(name, { key });
    return null;
  });
}
