/**
 * Rings, on every store: a process that stops cleanly gives its terms and its shares of totals to the others at once,
 * and orders, settings and the first webhook are heard at once. The two sides are Millraces on connections of their
 * own. With every ring lost the beat and the looks behind it bring the same.
 */
import { describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/definition.ts";
import { termKind } from "../../src/engine/term-book.ts";
import type { Store } from "../../src/store/store.ts";
import { handler } from "../../src/worker/handler.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { until } from "../support/until.ts";
import { usePlaces } from "../support/use-places.ts";

/** Behind a ring most looks come later than this; a busy machine takes most of it. */
const atOnceMs = 1500;
/** The longest look, and what a busy machine may add. */
const unheardMs = 2200 + 1100;
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

const deaf = (store: Store): Store => ({ ...store, watch: () => () => undefined });
const hearing = (store: Store): Store => store;

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
  ["rings", hearing, atOnceMs, roles],
  // The other roles lose their holder without a ring in takeover.test.ts.
  ["looks alone, every ring being lost,", deaf, unheardMs, roles.slice(0, 1)],
] as const;

describe.each(usePlaces())("on %s", (_title, place) => {
  describe.each(cases)("%s", (_way, through, withinMs, started) => {
    test.each(started)("bring the duties of one that stops to other %s", async (_role, start) => {
      const open = place();
      const operator = closeLater(millOn(await open(), { duties: false }));
      const looking = closeLater(await open());
      // Nobody takes the term of webhooks where there are none.
      await operator.webhooks.add("hook", { url: "http://127.0.0.1:9/", secret, kinds: "failed" });
      const one = closeLater(millOn(through(await open())));
      await start(one);
      await until("the first has all terms", async () => (await holderOf(looking)) !== null);
      const first = await holderOf(looking);
      const store = await open();
      const known = new Set<string>();
      const two = closeLater(millOn(through(noting(store, known))));
      await start(two);
      await until("the other knows who has them", () => known.size === terms.length);
      await one.close();
      await until(
        "the other has all terms",
        async () => ![null, first].includes(await holderOf(looking)),
        withinMs,
      );
      expect(await holderOf(looking)).not.toBe(first);
    });

    test("bring the share of a worker that stops to the others", async () => {
      const open = place();
      const one = closeLater(millOn(through(await open())));
      const two = closeLater(millOn(through(await open())));
      const workers = [await work(one, { total: 6 }), await work(two, { total: 6 })];
      const shares = async (): Promise<string> =>
        (await one.workers.list()).map(({ slots }) => slots["shared"]).join();
      await until("each has its share", async () => (await shares()) === "3,3");
      await workers[1]?.stop();
      await until("the other has all", async () => (await shares()) === "6", withinMs);
      expect(await shares()).toBe("6");
    });

    test("bring an order and a setting to an idle worker", async () => {
      const open = place();
      const operator = closeLater(millOn(await open(), { duties: false }));
      let hasHeard = false;
      const inner = await open();
      const watch: Store["watch"] = (listener) => inner.watch((hint) => ((hasHeard = true), listener(hint)));
      const other = closeLater(millOn(through({ ...inner, watch })));
      const worker = await work(other, 4);
      // A connection that listens takes a while to be had on a busy machine: what is told before is lost.
      const told = async (): Promise<boolean> => (await operator.enqueue(elsewhere, null), hasHeard);
      if (through === hearing) await until("it hears", told);
      const slots = async (): Promise<number | undefined> =>
        (await operator.workers.list())[0]?.slots["shared"];
      await until("it is listed", async () => (await slots()) === 4);
      await operator.queues.set("shared", { total: 2 });
      await until("it has fewer slots", async () => (await slots()) === 2, withinMs);
      await operator.workers.stop(worker.id);
      await until("it is gone", async () => (await slots()) === undefined, withinMs);
      expect(await slots()).toBeUndefined();
    });

    test("bring the first webhook to a process without workers", async () => {
      const open = place();
      const operator = closeLater(millOn(await open(), { duties: false }));
      const looking = closeLater(await open());
      const other = closeLater(millOn(through(await open())));
      other.startDuties();
      const held = async (): Promise<number> =>
        (await looking.readDocs({ kind: termKind, ids: terms })).docs.length;
      await until("it has all other terms", async () => (await held()) === terms.length - 1);
      await operator.webhooks.add("hook", { url: "http://127.0.0.1:9/", secret, kinds: "failed" });
      await until("it looks after webhooks", async () => (await held()) === terms.length, withinMs);
      expect(await held()).toBe(terms.length);
    });
  });
});
