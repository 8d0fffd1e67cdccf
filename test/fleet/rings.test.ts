/**
 * Rings, on every store: a process that stops cleanly rings for its terms and its shares of totals, and so do orders,
 * settings and the first webhook; the other side hears each ring and acts. With every ring lost it acts as well. The
 * two sides are Millraces on connections of their own. How soon they act is checked on the virtual clock
 * (prompt-rings.test.ts).
 */
import { describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/definition.ts";
import { termKind } from "../../src/engine/term-book.ts";
import type { Hint, Store } from "../../src/store/store.ts";
import { handler } from "../../src/worker/handler.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { until } from "../support/until.ts";
import { usePlaces } from "../support/use-places.ts";

const closeLater = closeAfterEach();
const terms = ["clocks", "index-audit", "metrics", "retention", "{webhooks}"];
const secret = "a secret of enough length";
const shared = job<null>("shared", { queue: "shared" });
const elsewhere = job<null>("elsewhere", { queue: "elsewhere" });
const work = (mill: Millrace, slots: number | { total: number }) =>
  mill.work([handler(shared, async () => undefined)], { queues: { shared: slots } });

const roles: [title: string, start: (mill: Millrace) => Promise<unknown>][] = [
  ["processes with workers", (mill) => work(mill, 4)],
  ["processes whose workers share a total", (mill) => work(mill, { total: 4 })],
  ["processes without workers", async (mill) => mill.startDuties()],
];

/** What a process hears of a store. */
interface Ear {
  readonly on: (store: Store) => Store;
  /** Enqueues until it is known to hear all partitions: on a busy machine it takes a while until a store listens. */
  readonly isOpen: (operator: Millrace) => Promise<void>;
  /** Waits for a ring behind those that were heard when this was called. */
  readonly nextRing: () => () => Promise<void>;
}

function openEar(): Ear {
  let [hints, rings] = [0, 0];
  const partitions = new Set<number>();
  const hear = (hint: Hint): void => {
    hints += 1;
    if (hint.kind === "rung") rings += 1;
    if (hint.kind === "told") partitions.add(hint.partition);
  };
  return {
    on: (store) => ({
      ...store,
      watch: (listener) =>
        store.watch((hint) => {
          hear(hint);
          listener(hint);
        }),
    }),
    isOpen: async (operator) => {
      const { partitions: all = 1 } = await operator.describe();
      await until("all partitions are heard", async () => {
        await operator.enqueue(elsewhere, null);
        return all === 1 ? hints > 0 : partitions.size === all;
      });
    },
    nextRing: () => {
      const before = rings;
      return () => until("the ring is heard", () => rings > before);
    },
  };
}

const deafEar = (): Ear => ({
  on: (store) => ({ ...store, watch: () => () => undefined }),
  isOpen: async () => undefined,
  nextRing: () => async () => undefined,
});

/** @param known gets the names of the terms that somebody asks for through the store. */
function noting(store: Store, known: Set<string>): Store {
  return {
    ...store,
    async readDocs(request) {
      const answer = await store.readDocs(request);
      if (request.kind === termKind && "ids" in request) for (const id of request.ids) known.add(id);
      return answer;
    },
  };
}

/** Who has the terms: null unless one process has all of them. */
async function holderOf(store: Store): Promise<string | null> {
  const { docs } = await store.readDocs({ kind: termKind, ids: terms });
  const [first = null] = docs.map(({ body }) => body);
  return docs.length === terms.length && docs.every(({ body }) => body === first) ? first : null;
}

const cases = [
  ["rings", openEar, roles],
  // The other roles lose their holder without a ring in takeover.test.ts.
  ["looks alone, every ring being lost,", deafEar, roles.slice(0, 1)],
] as const;

describe.each(usePlaces())("on %s", (_title, place) => {
  describe.each(cases)("%s", (_way, open, started) => {
    test.each(started)("bring the duties of one that stops to other %s", async (_role, start) => {
      const at = place();
      const ear = open();
      const operator = closeLater(millOn(await at(), { duties: false }));
      const looking = closeLater(await at());
      // Nobody takes the term of webhooks where there are none.
      await operator.webhooks.add("hook", { url: "http://127.0.0.1:9/", secret, kinds: "failed" });
      const one = closeLater(millOn(await at()));
      await start(one);
      await until("the first has all terms", async () => (await holderOf(looking)) !== null);
      const first = await holderOf(looking);
      const known = new Set<string>();
      const two = closeLater(millOn(ear.on(noting(await at(), known))));
      await start(two);
      await until("the other knows who has them", () => known.size === terms.length);
      await ear.isOpen(operator);
      const rings = ear.nextRing();
      await one.close();
      await rings();
      await until("the other has all terms", async () => ![null, first].includes(await holderOf(looking)));
      expect(await holderOf(looking)).not.toBe(first);
    });

    test("bring the share of a worker that stops to the others", async () => {
      const at = place();
      const ear = open();
      const one = closeLater(millOn(ear.on(await at())));
      const two = closeLater(millOn(await at()));
      const workers = [await work(one, { total: 6 }), await work(two, { total: 6 })];
      const shares = async (): Promise<string> =>
        (await one.workers.list()).map(({ slots }) => slots["shared"]).join();
      await until("each has its share", async () => (await shares()) === "3,3");
      await ear.isOpen(two);
      const rings = ear.nextRing();
      await workers[1]?.stop();
      await rings();
      await until("the other has all", async () => (await shares()) === "6");
      expect(await shares()).toBe("6");
    });

    test("bring an order and a setting to an idle worker", async () => {
      const at = place();
      const ear = open();
      const operator = closeLater(millOn(await at(), { duties: false }));
      const other = closeLater(millOn(ear.on(await at())));
      const worker = await work(other, 4);
      await ear.isOpen(operator);
      const slots = async (): Promise<number | undefined> =>
        (await operator.workers.list())[0]?.slots["shared"];
      await until("it is listed", async () => (await slots()) === 4);
      const forSetting = ear.nextRing();
      await operator.queues.set("shared", { total: 2 });
      await forSetting();
      await until("it has fewer slots", async () => (await slots()) === 2);
      const forOrder = ear.nextRing();
      await operator.workers.stop(worker.id);
      await forOrder();
      await until("it is gone", async () => (await slots()) === undefined);
      expect(await slots()).toBeUndefined();
    });

    test("bring the first webhook to a process without workers", async () => {
      const at = place();
      const ear = open();
      const operator = closeLater(millOn(await at(), { duties: false }));
      const looking = closeLater(await at());
      const other = closeLater(millOn(ear.on(await at())));
      other.startDuties();
      const held = async (): Promise<number> =>
        (await looking.readDocs({ kind: termKind, ids: terms })).docs.length;
      await until("it has all other terms", async () => (await held()) === terms.length - 1);
      await ear.isOpen(operator);
      const rings = ear.nextRing();
      await operator.webhooks.add("hook", { url: "http://127.0.0.1:9/", secret, kinds: "failed" });
      await rings();
      await until("it looks after webhooks", async () => (await held()) === terms.length);
      expect(await held()).toBe(terms.length);
    });
  });
});
