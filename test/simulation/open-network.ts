/** The store of a simulation, with a clock of its own, and the network around it: in memory, or on a real server. */
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Platform } from "../../src/platform/platform.ts";
import { partitionedStore } from "../../src/store/partitioned/partitioned-store.ts";
import type { Store } from "../../src/store/store.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { createVirtualPlatform } from "../../src/testing/virtual-platform.ts";
import type { VirtualTime } from "../../src/testing/virtual-time.ts";
import { BucketWorld } from "./bucket-world.ts";
import type { Network } from "./faulty-store.ts";
import { InFlight } from "./in-flight.ts";
import type { Plan } from "./plan.ts";
import { recounted } from "./recounted.ts";

/** A store on a real server in place of the one in memory. */
export interface RealStore {
  /**
   * Clients of one empty store that tells the time by this platform; closing the first of them, as the last, removes
   * what it holds.
   */
  readonly open: (platform: Platform) => Promise<readonly [Store, ...Store[]]>;
  /** Virtual time that may pass while a call is at the server, in which others come to it; 0 for one call at a time. */
  readonly overlapUs: number;
}

export interface NetworkOptions {
  readonly plan: Plan;
  readonly time: VirtualTime;
  readonly random: SeededRandom;
  /** What the store's clock is wrong by; may change. */
  readonly clock: { readonly offsetMs: number };
  readonly partitions?: number;
  readonly realStore?: RealStore | undefined;
  /** A bucket in memory with its writers, in place of one store in memory. */
  readonly isBucket?: boolean;
}

export async function openNetwork(options: NetworkOptions): Promise<Network> {
  const { time, realStore, isBucket = false } = options;
  if (isBucket) return openBucket(options);
  const inFlight = new InFlight(time, realStore?.overlapUs ?? 0);
  const stores =
    realStore === undefined ? await openInMemory(options) : await openReal(options, realStore, inFlight);
  const store = stores.clients[0] as Store;
  return {
    ...stores,
    ...{ store, observer: store, witnessed: (evidence) => evidence },
    ...blank(options, inFlight),
    isOrdered: (realStore?.overlapUs ?? 0) === 0,
    close: async () => {
      for (const client of stores.clients.toReversed()) await client.close();
    },
  };
}

function blank({ plan, time }: NetworkOptions, inFlight: InFlight) {
  const counts = { orders: 0, calls: 0, onTheWay: 0, watchers: 0 };
  return { inFlight, time, plan, history: [], isStormy: !plan.isFaultFree, isAway: false, ...counts };
}

async function openBucket(options: NetworkOptions): Promise<Network> {
  const world = new BucketWorld(options);
  await world.open();
  const network: Network = {
    ...blank(options, new InFlight(options.time, 0)),
    store: world.patient,
    observer: world.observer,
    parts: [world.patient],
    clients: world.clients,
    witnessed: (evidence) => world.witnessed(evidence),
    miscounts: () => Promise.resolve([]),
    // The world knows the order of commits, which is not that of answers.
    isOrdered: false,
    close: () => world.close(),
  };
  world.join(network);
  return network;
}

type Opened = Pick<Network, "parts" | "clients" | "miscounts">;

async function openInMemory({ time, random, clock, partitions = 1 }: NetworkOptions): Promise<Opened> {
  const base = createVirtualPlatform({ time, random });
  const platform: Platform = { ...base, now: () => base.now() + clock.offsetMs };
  const parts: Store[] = [];
  for (let number = 0; number < partitions; number++)
    parts.push(await openSqliteStore({ path: ":memory:", platform, executor: "inline" }));
  const counts = parts.map(recounted);
  const counted = counts.map(({ store }) => store);
  const whole = partitions === 1 ? (counted[0] as Store) : partitionedStore(counted, { platform });
  const miscounts = async (): Promise<readonly string[]> =>
    (await Promise.all(counts.map((each) => each.miscounts()))).flat();
  return { parts: counted, clients: [whole], miscounts };
}

/**
 * Connections and their timers are real; only the time that the store reads is virtual, and like a server's it never
 * goes back.
 */
async function openReal(
  { time, clock }: NetworkOptions,
  { open }: RealStore,
  inFlight: InFlight,
): Promise<Opened> {
  let last = 0;
  const tick = (): number => (last = Math.max(last, time.now + clock.offsetMs));
  const now = (): number => inFlight.nowOf(tick);
  const clients = (await open({ ...nodePlatform, now })).map((client) => inFlight.watch(client));
  return { parts: clients.slice(0, 1), clients, miscounts: () => Promise.resolve([]) };
}
