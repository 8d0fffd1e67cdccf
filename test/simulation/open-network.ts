/** The store of a simulation, in memory and with a clock of its own, and the network around it. */
import type { Platform } from "../../src/platform/platform.ts";
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
}

export async function openNetwork({ plan, time, random, clock }: NetworkOptions): Promise<Network> {
  const base = createVirtualPlatform({ time, random });
  const platform: Platform = { ...base, now: () => base.now() + clock.offsetMs };
  const store = await openSqliteStore({ path: ":memory:", platform, executor: "inline" });
  return {
    store,
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
