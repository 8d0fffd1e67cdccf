/**
 * A real server behind a proxy that breaks connections: what a lost reply, a lost request and a reset look like to the
 * caller, that repeating makes no second job, and that load goes through. Any store that lives on a server runs this;
 * what only one of them can meet stands in its own file.
 */
import type { Duration } from "../../src/model/duration.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import type { Store } from "../../src/store/store.ts";
import { handler } from "../../src/worker/handler.ts";
import { aClaim, aJob, aSettle, finish } from "../support/builders.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import type { TcpProxy } from "../support/servers/tcp-proxy.ts";
import { answers, until } from "../support/until.ts";
import { millOn } from "../support/mill-on.ts";
import { hangMs } from "../support/hang-ms.ts";

/**
 * How long a call through the proxy may take where the server falls silent. Where it does not, no clock may end a call
 * of a busy machine.
 */
export const callTimeoutMs = 1500;

export interface NetworkPlace {
  readonly proxy: TcpProxy;
  /** Through the proxy. */
  readonly store: Store;
  /** Past it. */
  readonly direct: Store;
}

export interface NetworkSubject {
  readonly title: string;
  /** By what the proxy knows a call: of one plain job, of one with a key, and of the others. */
  readonly words: Readonly<Record<"submit" | "submitKeyed" | "claim" | "settle" | "readJobs", string>>;
  readonly open: () => Promise<NetworkPlace>;
}

export const coded = (code: string, outcome: string) => expect.objectContaining({ code, outcome });
export const unknown = coded("outcome-unknown", "unknown");
export const away = coded("store-unavailable", "did-not-happen");

export const plain = job<number, number>("plain", { retry: { attempts: 50, backoff: 0 } });
export const echo = handler(plain, async ({ input }) => input);

interface OpenPlace extends NetworkPlace {
  /** Ends with the case. */
  readonly openMill: (on: Store, giveUp: Duration) => Millrace;
}

/**
 * A place for each case of a describe block. After the case the network is healed and all is closed, the mills first.
 */
export function usePlace(open: () => Promise<NetworkPlace>): OpenPlace {
  let place: NetworkPlace;
  beforeEach(async () => {
    place = await open();
  });
  // The last hook runs first.
  afterEach(async () => {
    await place.store.close();
    await place.direct.close();
    await place.proxy.close();
  });
  const closeLater = closeAfterEach();
  afterEach(() => place.proxy.heal());
  return {
    get proxy() {
      return place.proxy;
    },
    get store() {
      return place.store;
    },
    get direct() {
      return place.direct;
    },
    openMill: (on, giveUp) => {
      return closeLater(millOn(on, { giveUp }));
    },
  };
}

export const countJobs = async (store: Store): Promise<number> =>
  (await store.countJobs()).reduce((sum, each) => sum + each.count, 0);

export function describeNetwork({ title, words, open }: NetworkSubject): void {
  describe(`${title}`, () => {
    const place = usePlace(open);
    const { openMill } = place;

    test("a reply lost after the server did the call is unknown, and repeating the submit makes no second job", async () => {
      const { proxy, store, direct } = place;
      const cut = proxy.cutReply(words.submit);
      const unit = { jobs: [aJob({ id: "a" })] };
      await expect(store.submit([unit])).rejects.toThrow(unknown);
      await cut;
      expect(await countJobs(direct)).toBe(1);
      expect(await store.submit([{ ...unit, isRepeat: true }])).toEqual([
        { kind: "ok", ids: ["a"], hows: ["existing"] },
      ]);
      expect(await countJobs(direct)).toBe(1);
    });

    test("the same of a job with a key: whoever comes with the key finds the first", async () => {
      const { proxy, store, direct } = place;
      const unique = { key: "k", hold: 60_000, onHeld: "keep" as const };
      const cut = proxy.cutReply(words.submitKeyed);
      const unit = { jobs: [aJob({ id: "a", unique })] };
      await expect(store.submit([unit])).rejects.toThrow(unknown);
      await cut;
      expect(await store.submit([{ ...unit, isRepeat: true }])).toMatchObject([{ kind: "ok", ids: ["a"] }]);
      expect(await store.submit([{ jobs: [aJob({ id: "b", unique })] }])).toMatchObject([
        { kind: "ok", ids: ["a"] },
      ]);
      expect(await countJobs(direct)).toBe(1);
    });

    test("a request that was lost on its way is unknown too, and repeating it makes the job", async () => {
      const { proxy, store, direct } = place;
      const dropped = proxy.dropRequest(words.submit);
      const unit = { jobs: [aJob({ id: "a" })] };
      await expect(store.submit([unit])).rejects.toThrow(unknown);
      await dropped;
      expect(await countJobs(direct)).toBe(0);
      expect(await store.submit([{ ...unit, isRepeat: true }])).toEqual([
        { kind: "ok", ids: ["a"], hows: ["created"] },
      ]);
      expect(await countJobs(direct)).toBe(1);
    });

    test("a claim whose reply was lost is found again by its owner, and a settle whose reply was lost was applied", async () => {
      const { proxy, store } = place;
      await store.submit([{ jobs: [aJob({ id: "a" })] }]);
      // A first claim may only learn the routes.
      await store.claim(aClaim({ offers: [] }));
      const cutClaim = proxy.cutReply(words.claim);
      await expect(store.claim(aClaim({ leaseMs: 60_000 }))).rejects.toThrow(unknown);
      await cutClaim;
      const renewal = { owner: "w1", leaseMs: 60_000, leases: [], wantsOthers: true };
      const { others } = await store.extendIfLeased(renewal);
      expect(others).toMatchObject([{ id: "a" }]);
      const settle = aSettle(others?.[0] as never, finish());
      const cutSettle = proxy.cutReply(words.settle);
      await expect(store.settleIfLeased([settle])).rejects.toThrow(unknown);
      await cutSettle;
      expect(await store.settleIfLeased([settle])).toEqual([{ kind: "already" }]);
    });

    test("a read is only unavailable, and so is a call that no connection could be made for", async () => {
      const { proxy, store, direct } = place;
      const dropped = proxy.dropRequest(words.readJobs);
      await expect(store.readJobs(["a"])).rejects.toThrow(away);
      await dropped;
      proxy.isRefusing = true;
      proxy.cut();
      await expect(store.submit([{ jobs: [aJob({ id: "a" })] }])).rejects.toThrow(away);
      expect(await countJobs(direct)).toBe(0);
      proxy.heal();
      await until("the store answers", () => answers(store));
      expect(await store.readJobs(["a"])).toEqual([null]);
    });

    test("an application's enqueue survives lost replies and requests, and one that gives up can be repeated with its key", async () => {
      const { proxy, store, direct } = place;
      const mill = openMill(store, "10s");
      const cut = proxy.cutReply(words.submit);
      await mill.enqueue(plain, 1);
      await cut;
      const dropped = proxy.dropRequest(words.submit);
      await mill.enqueue(plain, 2);
      await dropped;
      expect(await countJobs(direct)).toBe(2);

      const hasty = openMill(store, "1ms");
      const lost = proxy.cutReply(words.submitKeyed).then(() => void (proxy.isRefusing = true));
      await expect(hasty.enqueue(plain, 3, { id: "order-3", unique: "order-3" })).rejects.toThrow(unknown);
      await lost;
      proxy.heal();
      await until("the store answers", () => answers(store));
      const handle = await mill.enqueue(plain, 3, { id: "order-3", unique: "order-3" });
      expect([handle.id, await countJobs(direct)]).toEqual(["order-3", 3]);
    });

    test("under load, with connections cut mid-call, replies late and in slices, each job is completed once", async () => {
      const { proxy, store, direct } = place;
      const mill = openMill(store, "20s");
      const runs = new Map<number, number>();
      const counted = handler(
        plain,
        async ({ input }) => (runs.set(input, (runs.get(input) ?? 0) + 1), input),
      );
      await mill.work([counted], { concurrency: 10, lease: "2s" });
      const jobs = 300;
      proxy.delayMs = 3;
      proxy.sliceBytes = 100;
      let isOver = false;
      const cutting = (async () => {
        for (let cuts = 0; cuts < 12; cuts++) {
          const sofar = runs.size;
          await until("some more jobs have run", () => isOver || runs.size > sofar);
          proxy.cut();
        }
        proxy.delayMs = proxy.sliceBytes = 0;
      })();
      const handles = [];
      for (let number = 0; number < jobs; number += 10) {
        const batch = Array.from({ length: 10 }, (_, index) =>
          plain.with(number + index, { id: `job-${number + index}` }),
        );
        handles.push(...(await mill.enqueueMany(batch)));
      }
      const results = await Promise.all(handles.map((handle) => handle.result({ timeout: hangMs })));
      isOver = true;
      await cutting;
      expect(results).toEqual(Array.from({ length: jobs }, (_, number) => number));
      expect(await direct.countJobs()).toMatchObject([{ state: "completed", count: jobs }]);
    });

    test("a worker hears of jobs of others again after all its connections were cut", async () => {
      const { proxy, store, direct } = place;
      await openMill(store, "10s").work([echo]);
      const other = openMill(direct, "10s");
      expect(await (await other.enqueue(plain, 1)).result({ timeout: hangMs })).toBe(1);
      proxy.cut();
      expect(await (await other.enqueue(plain, 2)).result({ timeout: hangMs })).toBe(2);
    });
  });
}
