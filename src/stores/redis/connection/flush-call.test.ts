/** Submits, settles and claims of one flush are one call; each is answered as if it had been made alone. */
import { describe, expect, test } from "vitest";
import type { NewJob } from "../../../store/records.ts";
import type { Store } from "../../../store/store.ts";
import { aClaim, aJob, aRoute, aSettle, finish } from "../../../../test/support/builders.ts";
import { useOwnRedis } from "../../../../test/support/servers/use-redis.ts";
import { until } from "../../../../test/support/until.ts";
import { auditAll } from "../../../../test/support/walk.ts";
import type { Connection } from "./connection.ts";
import { routeText } from "../packing/route-text.ts";
import { FlushCall } from "./flush-call.ts";

const redis = useOwnRedis();

const submit = (store: Store, ...jobs: NewJob[]): ReturnType<Store["submit"]> => store.submit([{ jobs }]);
const idsOf = (jobs: readonly { readonly id: string }[]): string[] => jobs.map(({ id }) => id);

/** How many functions the server runs meanwhile. */
async function countCalls(work: () => Promise<unknown>): Promise<number> {
  await redis.admin.config("RESETSTAT");
  await work();
  const stats = await redis.admin.info("commandstats");
  return Number(/cmdstat_fcall:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

/** Every message that the store's functions publish, each once the server has handed out all before it. */
async function published(): Promise<() => Promise<string[]>> {
  const channel = `{${redis.prefix}:0}:hint`;
  const listener = redis.admin.duplicate();
  const messages: string[] = [];
  listener.on("message", (_, message: string) => messages.push(message));
  await listener.subscribe(channel);
  redis.closeLater({ close: async () => listener.disconnect() });
  return async () => {
    await redis.admin.publish(channel, "end");
    await until("the last message is heard", () => messages.includes("end"));
    return messages.splice(0).slice(0, -1);
  };
}

describe("one flush", () => {
  test("is one call, in which a claim sees the jobs of every submit, also of one made behind it", async () => {
    const store = await redis.open();
    await submit(store, aJob({ id: "first" }));
    const [running] = (await store.claim(aClaim())).jobs;
    const calls = await countCalls(async () => {
      const [, , claimed, settled] = await Promise.all([
        submit(store, aJob({ id: "a" })),
        submit(store, aJob({ id: "b" }), aJob({ id: "c" })),
        store.claim(aClaim()),
        store.settleIfLeased([aSettle(running!, finish())]),
        submit(store, aJob({ id: "d" })),
      ]);
      expect(idsOf(claimed.jobs)).toEqual(["a", "b", "c", "d"]);
      expect(settled).toEqual([{ kind: "ok" }]);
    });
    expect(calls).toBe(1);
    expect(await auditAll(store)).toEqual({});
  });

  test("is one record of the feed, with the events of a job in order", async () => {
    const store = await redis.open();
    const { cursor } = await store.readFeed({ after: -1, max: 0 });
    await Promise.all([
      store.claim(aClaim({ owner: "w1", max: 1 })),
      submit(store, aJob({ id: "a" }), aJob({ id: "b" })),
      store.claim(aClaim({ owner: "w2" })),
    ]);
    const { records } = await store.readFeed({ after: cursor, max: 10 });
    expect(records).toHaveLength(1);
    for (const id of ["a", "b"]) {
      const own = records[0]!.events.filter((event) => event.id === id);
      expect(own.map(({ kind, rev }) => [kind, rev])).toEqual([
        ["submitted", 1],
        ["claimed", 2],
      ]);
    }
  });

  test("sends other processes hints of what is left ready, not of what its own claim took", async () => {
    const store = await redis.open();
    const messages = await published();
    await submit(store, aJob({ id: "first" }));
    expect(await messages()).toHaveLength(1);
    await store.claim(aClaim());
    await Promise.all([submit(store, aJob({ id: "a" })), store.claim(aClaim({ max: 5 }))]);
    expect(await messages()).toEqual([]);
    await Promise.all([submit(store, aJob({ id: "b" }), aJob({ id: "c" })), store.claim(aClaim({ max: 1 }))]);
    expect(await messages()).toHaveLength(1);
  });

  test("refuses a submit whose route number has another content, whole, and does the rest", async () => {
    const store = await redis.open();
    await submit(store, aJob({ id: "first" }));
    const key = `{${redis.prefix}:0}:route`;
    await redis.admin.hset(key, routeText(aRoute({ queue: "taken" })), "somebody\x1felse\x1f");
    const [refused, claimed] = await Promise.allSettled([
      submit(store, aJob({ id: "a" }), aJob({ id: "b", queue: "taken" })),
      store.claim(aClaim()),
    ]);
    expect(refused).toMatchObject({ reason: { code: "route-collision", outcome: "did-not-happen" } });
    expect(claimed).toMatchObject({ status: "fulfilled", value: { jobs: [{ id: "first" }] } });
    expect(await store.readJobs(["a", "b"])).toEqual([null, null]);
  });

  test("fails as one where the store is closed", async () => {
    const store = await redis.open();
    await store.close();
    const both = [submit(store, aJob({ id: "a" })), store.claim(aClaim())];
    for (const each of both) await expect(each).rejects.toMatchObject({ code: "closed" });
  });
});

test("a route that a claim of this flush or a later one has asked for is not hinted at, any other is", async () => {
  const emitted: number[][] = [];
  const answers = Array.from({ length: 2 }, () => Promise.withResolvers<unknown>());
  let sent = 0;
  const write = (): Promise<unknown> => answers[sent++]!.promise;
  const flush = new FlushCall({ write } as unknown as Connection, ({ routes }) => emitted.push([...routes]));
  const routes = [1, 2, 3];
  const ready = [routes.map(routeText).join(","), "", "", ""];
  const first = [flush.call("claim", [], [1]), flush.call("submit", [])];
  await Promise.resolve();
  const second = flush.call("claim", [], [2]);
  await Promise.resolve();
  answers[0]!.resolve([ready, [[], []]]);
  answers[1]!.resolve([ready, [[]]]);
  await Promise.all([...first, second]);
  expect(emitted).toEqual([[3], [1, 3]]);
});

test("a claim of more routes than one command takes gets the job that is there", async () => {
  const store = await redis.open();
  const jobs = Array.from({ length: 9000 }, (_, at) => aJob({ id: `r${at}`, name: `n${at}` }));
  await submit(store, ...jobs);
  const routes = jobs.map(({ queue, name }) => aRoute({ queue, name }));
  const all = await store.claim(aClaim({ offers: [{ routes, max: 9000 }] }));
  expect(idsOf(all.jobs)).toEqual(idsOf(jobs));
  await submit(store, aJob({ id: "a", name: "n7" }));
  expect(idsOf((await store.claim(aClaim({ offers: [{ routes, max: 1 }] }))).jobs)).toEqual(["a"]);
  expect(await store.readRoutes()).toHaveLength(9000);
});
