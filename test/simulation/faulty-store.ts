/**
 * The way from a process to the store and back. Every call gets a fate: latency, then refused, lost, committed, or
 * committed with its reply lost. Hints get lost, late and doubled. What happens is written into the history, whether
 * the caller learns it or not.
 */
import { isMillraceError, MillraceError } from "../../src/model/error.ts";
import type { Hint, Store } from "../../src/store/store.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import type { VirtualTime } from "../../src/testing/virtual-time.ts";
import { isRecorded } from "../history/history.ts";
import type { Evidence, Operation, Seen, StoreCall } from "../history/history.ts";
import type { InFlight } from "./in-flight.ts";
import type { FaultClass, Plan } from "./plan.ts";
import type { SimProcess } from "./actors/sim-process.ts";

type Fate = "commit" | "refuse" | "lose-request" | "lose-reply";
type Reply = { readonly seen: Seen; readonly answer?: unknown; readonly error?: unknown };

/** What all processes share: the store, the weather, and the record of it all. */
export interface Network {
  readonly store: Store;
  /** The same store for whoever moves the time: its calls move it as far as they need. */
  readonly observer: Store;
  /** The evidence without what was told but never happened. */
  readonly witnessed: (
    evidence: Pick<Evidence, "operations" | "effects">,
  ) => Pick<Evidence, "operations" | "effects">;
  /** Of a store in memory: flows that were counted wrong behind any of its commits. */
  readonly miscounts: () => Promise<readonly string[]>;
  /** What it is made of: processes reach each part on a way of its own. */
  readonly parts: readonly Store[];
  /** Clients of a store on a real server, which processes take in turn; for a store in memory it is the store alone. */
  readonly clients: readonly Store[];
  readonly inFlight: InFlight;
  /** Whether the answers come in the order of their effects: not where calls meet at a real server. */
  readonly isOrdered: boolean;
  readonly time: VirtualTime;
  readonly plan: Plan;
  readonly history: Operation[];
  /** Off once the world heals. */
  isStormy: boolean;
  /** The store is away: requests are refused or vanish, replies that were on their way are lost. */
  isAway: boolean;
  /** Counts effects, in the order in which the store has them. */
  orders: number;
  /** Requests that were sent, of every kind. */
  calls: number;
  /** Requests that the store has not answered yet. One may wait at a paused writer of a bucket. */
  onTheWay: number;
  /** Listeners that are connected now. */
  watchers: number;
  /** The store itself, which outlives its users. */
  close(): Promise<void>;
}

const hangMinUs = 5_000_000;
const hangMaxUs = 60_000_000;

/** @param partition what the store is of a larger one; left out for a whole one. */
export function connectStore(
  network: Network,
  process: SimProcess,
  random: SeededRandom,
  store: Store = network.store,
  partition?: number,
): Store {
  const { time, plan } = network;
  const strikes = (name: FaultClass, weight = 1): boolean =>
    network.isStormy && plan.isOn[name] && random.chance(plan.rate[name] * weight);

  const latencyUs = (): number => {
    if (strikes("hang", 0.05)) return random.whole(hangMinUs, hangMaxUs);
    if (strikes("slow")) return random.whole(1000, plan.leaseMs * 1500);
    return random.whole(20, 1500);
  };
  const drawFate = (): Fate => {
    if (strikes("unavailable")) return "refuse";
    if (strikes("lost-request")) return "lose-request";
    return strikes("lost-reply") ? "lose-reply" : "commit";
  };

  const lost = (): MillraceError => new MillraceError("outcome-unknown", "The reply was lost.");
  const away = (): MillraceError => new MillraceError("store-unavailable", "The store is away.");

  /** At the store: what becomes of the call there, and what is sent back. */
  const arrive = async (
    entry: StoreCall | null,
    fate: Fate,
    invoke: (entry: StoreCall | null) => Promise<unknown>,
  ): Promise<Reply> => {
    if (fate === "refuse" || (network.isAway && random.chance(0.7))) return { seen: "failed", error: away() };
    if (fate === "lose-request" || network.isAway) return { seen: "unknown", error: lost() };
    try {
      if (entry !== null) entry.reachedUs = time.elapsedUs;
      const answer = await invoke(entry);
      if (entry !== null) {
        if (network.isOrdered) entry.order = ++network.orders;
        entry.answer = answer as never;
        entry.leftUs = time.elapsedUs;
      }
      return fate === "lose-reply" ? { seen: "unknown", error: lost() } : { seen: "ok", answer };
    } catch (error) {
      const isUnknown = !isMillraceError(error) || error.outcome === "unknown";
      return { seen: isUnknown ? "unknown" : "failed", error };
    }
  };

  const call = (
    kind: string,
    request: unknown,
    invoke: (entry: StoreCall | null) => Promise<unknown>,
  ): Promise<unknown> => {
    const entry = isRecorded(kind, request) ? beginEntry(network, process, kind, request, partition) : null;
    const fate = drawFate();
    network.calls += 1;
    network.onTheWay += 1;
    return new Promise((resolve, reject) => {
      const land = (sent: Reply): void => {
        // An outage takes what was on its way back.
        const reply: Reply = network.isAway && sent.seen === "ok" ? { seen: "unknown", error: lost() } : sent;
        if (entry !== null) {
          entry.seen = reply.seen;
          entry.answeredUs = time.elapsedUs;
        }
        if (reply.seen === "ok") resolve(reply.answer);
        else reject(reply.error as Error);
      };
      time.after(latencyUs(), () => {
        void arrive(entry, fate, invoke).then((reply) => {
          network.onTheWay -= 1;
          process.deliver(latencyUs(), () => land(reply));
        });
      });
    });
  };

  const connected = new Set<() => void>();
  const watch = (listener: (hint: Hint) => void): (() => void) => {
    // The end of its connections settles what a dead process waited for, and its code goes on from there.
    if (!process.isAlive) return () => undefined;
    let isOn = true;
    const unwatch = store.watch((hint) => {
      if (!process.isAlive || plan.hearsNothing) return;
      const copies = strikes("hints") ? random.pick([0, 0, 2]) : 1;
      for (let copy = 0; copy < copies; copy++)
        process.deliver(latencyUs(), () => {
          if (isOn) listener(hint);
        });
    });
    network.watchers += 1;
    const leave = (): void => {
      if (!isOn) return;
      isOn = false;
      network.watchers -= 1;
      connected.delete(leave);
      unwatch();
    };
    connected.add(leave);
    return leave;
  };

  const wrapped = Object.fromEntries(
    Object.entries(store).map(([kind, operation]: [string, unknown]) => [
      kind,
      typeof operation === "function"
        ? (request: unknown) => call(kind, request, (entry) => operation(request, entry) as Promise<unknown>)
        : operation,
    ]),
  ) as unknown as Store;
  return {
    ...wrapped,
    watch,
    // A hint like those of the store itself: whether it is heard is up to whoever watches.
    ...(store.announceTaken === undefined
      ? {}
      : {
          announceTaken: (routes, sentUs) =>
            process.isAlive ? store.announceTaken?.(routes, sentUs) : undefined,
        }),
    inTransaction: (connection) => store.inTransaction(connection),
    // The store itself outlives its users; what is left of a user is its watching.
    close: async () => {
      for (const leave of [...connected]) leave();
    },
  };
}

function beginEntry(
  network: Network,
  process: SimProcess,
  kind: string,
  request: unknown,
  partition: number | undefined,
): StoreCall {
  const entry = {
    kind,
    actor: process.name,
    invokedUs: network.time.elapsedUs,
    answeredUs: null,
    seen: "unknown",
    order: null,
    // A worker goes on adding to the list of routes that it offers.
    request: kind === "claim" ? structuredClone(request) : request,
    answer: null,
    ...(partition === undefined ? {} : { partition }),
    reachedUs: null,
    leftUs: null,
  } as StoreCall;
  network.history.push(entry);
  return entry;
}
