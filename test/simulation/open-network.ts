/** The store of a simulation, in memory and with a clock of its own, and the network around it. */
import type { Platform } from "../../src/platform/platform.ts";
import { partitionedStore } from "../../src/store/partitioned/partitioned-store.ts";
import type { Store } from "../../src/store/store.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { createVirtualPlatform } from "../../src/testing/virtual-platform.ts";
import type { VirtualTime } from "../../src/testing/virtual-time.ts";
import type { Network } from "./faulty-store.ts";
import type { Plan } from "./plan.ts";

export interface NetworkOptions {
  readonly plan: Plan;
  readonly time: VirtualTime;
  readonly random: SeededRandom;
  /** What the store's clock is wrong by; may change. */
  readonly clock: { readonly offsetMs: number };
  readonly partitions?: number;
}

export async function openNetwork(options: NetworkOptions): Promise<Network> {
  const { plan, time, random, clock, partitions = 1 } = options;
  const base = createVirtualPlatform({ time, random });
  const platform: Platform = { ...base, now: () => base.now() + clock.offsetMs };
  const parts: Store[] = [];
  for (let number = 0; number < partitions; number++)
    parts.push(await openSqliteStore({ path: ":memory:", platform, executor: "inline" }));
  const nowMs = (): number => platform.monotonicUs() / 1000;
  const store = partitions === 1 ? (parts[0] as Store) : partitionedStore(parts, { nowMs });
  return {
    store,
    parts,
    time,
    plan,
    history: [],
    isStormy: !plan.isFaultFree,
    isAway: false,
    orders: 0,
    calls: 0,
    onTheWay: 0,
    watchers: 0,
  };
}
