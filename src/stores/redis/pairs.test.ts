/** A job submitted and claimed in one call leaves the keys that two calls leave, and is handed out by the same order. */
import { describe, expect, test } from "vitest";
import type { ClaimRequest } from "../../store/operations.ts";
import type { NewJob } from "../../store/records.ts";
import type { Hint, Store } from "../../store/store.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import { aClaim, aJob, aSettle, finish } from "../../../test/support/builders.ts";
import { closeAfterEach } from "../../../test/support/close-after-each.ts";
import { until } from "../../../test/support/until.ts";
import { useSharedRedis } from "../../../test/support/use-redis.ts";
import { openRedisStore } from "./redis-store.ts";

const redis = useSharedRedis();
const closeLater = closeAfterEach();

interface Place {
  readonly store: Store;
  readonly prefix: string;
}

async function open(): Promise<Place> {
  let prefix = "";
  const store = await redis.prefixes.open((url, own) => {
    prefix = own;
    return openRedisStore({ url, prefix, platform: createVirtualPlatform(), clock: "platform" });
  });
  return { store: closeLater(store), prefix };
}

/** Every message that the store's functions publish, each once the server has handed out all before it. */
async function published({ prefix }: Place): Promise<() => Promise<string[]>> {
  const channel = `{${prefix}:0}:hint`;
  const listener = redis.prefixes.client.duplicate();
  const messages: string[] = [];
  listener.on("message", (_, message: string) => messages.push(message));
  await listener.subscribe(channel);
  closeLater({ close: async () => listener.disconnect() });
  return async () => {
    await redis.prefixes.client.publish(channel, "end");
    await until("the last message is heard", () => messages.includes("end"));
    return messages.splice(0).slice(0, -1);
  };
}

/** In one turn, as a worker does whose own process submits. */
async function pair({ store }: Place, job: NewJob, request: ClaimRequest) {
  const [, claimed] = await Promise.all([store.submit([{ jobs: [job] }]), store.claim(request)]);
  return claimed;
}

async function apart({ store }: Place, job: NewJob, request: ClaimRequest) {
  await store.submit([{ jobs: [job] }]);
  return store.claim(request);
}

/** Every key with what it holds; of the feed its events in a row, because one call makes one record. */
async function keysOf({ prefix }: Place): Promise<Record<string, unknown>> {
  const { client } = redis.prefixes;
  const tag = `{${prefix}:0}:`;
  const held: Record<string, unknown> = {};
  for (const key of (await client.keys(`${tag}*`)).toSorted()) {
    const name = key.slice(tag.length);
    switch (await client.type(key)) {
      case "hash": {
        const { token: _, ...fields } = await client.hgetall(key);
        held[name] = fields;
        break;
      }
      case "zset":
        held[name] = await client.zrange(key, 0, "-1", "WITHSCORES");
        break;
      case "list":
        held[name] = await client.lrange(key, 0, -1);
        break;
      default: {
        const records = await client.xrange(key, "-", "+");
        held[name] = records.flatMap(([, [, at, , events]]) =>
          (events as string).split("\x1e").map((event) => `${at} ${event}`),
        );
      }
    }
  }
  return held;
}

const job = (id: string, given: Partial<NewJob> = {}): NewJob => aJob({ id, ...given });
const ids = (jobs: readonly { readonly id: string }[]): string[] => jobs.map(({ id }) => id);

describe("a job and the claim behind it in one call", () => {
  test.each([
    ["plain", {}],
    ["with a rank of its own", { rankBase: -5_000, rankSlope: 1 }],
    ["with a rank that does not grow", { rankBase: 7, rankSlope: 0 }],
    ["with policy, meta and a text of marks", { policy: '{"a":1}', meta: '{"b":2}', input: '"\x1f\x1e\\"' }],
  ])("leave what two calls leave: %s", async (_, given) => {
    const [one, two] = [await open(), await open()];
    const answers = [];
    for (const [place, run] of [
      [one, pair],
      [two, apart],
    ] as const) {
      // The first job makes the route, which the worker does not know yet.
      await run(place, job("first", given), aClaim());
      answers.push([
        await run(place, job("second", given), aClaim({ routesKnown: 1 })),
        await run(place, job("third", given), aClaim({ routesKnown: 1, max: 1 })),
      ]);
    }
    expect(answers[0]).toEqual(answers[1]);
    expect(await keysOf(one)).toEqual(await keysOf(two));
    const records = async ({ prefix }: Place): Promise<number> =>
      redis.prefixes.client.xlen(`{${prefix}:0}:feed`);
    expect((await records(two)) - (await records(one)), "calls saved").toBe(2);
  });

  test("hand out what comes first in the order, if others wait", async () => {
    const place = await open();
    await place.store.submit([{ jobs: [job("a"), job("b")] }]);
    await place.store.claim(aClaim({ max: 0, offers: [] }));
    const { jobs, more } = await pair(place, job("c"), aClaim({ max: 2, routesKnown: 1 }));
    expect(ids(jobs)).toEqual(["a", "b"]);
    expect(more).toBe(true);
    expect(ids((await place.store.claim(aClaim())).jobs)).toEqual(["c"]);
  });

  test("look at every route that is offered, and leave one alone that is not", async () => {
    const place = await open();
    const { store } = place;
    const other = (id: string): NewJob => job(id, { name: "other" });
    await store.submit([{ jobs: [job("a"), other("b")] }]);
    await store.claim(aClaim({ max: 1, routesKnown: 0 }));
    const offers = [{ routes: [1, 2], max: 1 }];
    expect(ids((await pair(place, job("c"), aClaim({ offers, routesKnown: 2 }))).jobs)).toEqual(["b"]);
    expect(ids((await pair(place, other("d"), aClaim({ routesKnown: 2 }))).jobs)).toEqual(["c"]);
    expect(ids((await store.claim(aClaim({ offers, routesKnown: 2 }))).jobs)).toEqual(["d"]);
    const several = [
      { routes: [1], max: 1 },
      { routes: [2], max: 1 },
    ];
    expect(ids((await pair(place, other("e"), aClaim({ offers: several, routesKnown: 2 }))).jobs)).toEqual([
      "e",
    ]);
  });

  test("hand the job out to a worker of more routes than one command takes", async () => {
    const place = await open();
    const { store } = place;
    const jobs = Array.from({ length: 9000 }, (_, index) => job(`r${index}`, { name: `n${index}` }));
    await store.submit([{ jobs }]);
    const routes = jobs.map((_, index) => index + 1);
    await store.claim(aClaim({ offers: [] }));
    const all = [{ routes, max: 9000 }];
    const before = await store.claim(aClaim({ offers: all, routesKnown: 9000 }));
    expect(ids(before.jobs)).toEqual(ids(jobs));
    const offers = [{ routes, max: 1 }];
    const after = await pair(place, job("a", { name: "n7" }), aClaim({ offers, routesKnown: 9000 }));
    expect(ids(after.jobs)).toEqual(["a"]);
  });

  test("are told to watchers as any other: nothing is left to claim, the end is hinted at", async () => {
    const place = await open();
    const { store } = place;
    const messages = await published(place);
    await apart(place, job("first"), aClaim());
    expect(await messages(), "a job that waits is told to other processes").toHaveLength(1);
    const hints: Hint[] = [];
    store.watch((hint) => hints.push(hint));
    const { jobs } = await pair(place, job("second"), aClaim({ routesKnown: 1 }));
    expect(await messages(), "one that goes to its worker at once is not").toEqual([]);
    await store.settleIfLeased(jobs.map((each) => aSettle(each, finish())));
    expect(await messages()).toEqual([expect.stringContaining("second")]);
    expect(hints).toContainEqual({ kind: "finished", ids: ["second"] });
  });

  test("do not wait for each other: a submit without a claim, and two in a turn, go out at once", async () => {
    const place = await open();
    const { store } = place;
    const submitted = ["a", "b", "c"].map((id) => store.submit([{ jobs: [job(id)] }]));
    const claimed = await store.claim(aClaim());
    await Promise.all(submitted);
    const later = await store.claim(aClaim({ routesKnown: 1 }));
    expect(ids([...claimed.jobs, ...later.jobs])).toEqual(["a", "b", "c"]);
  });

  test("both fail with a store that is closed", async () => {
    const { store } = await open();
    await store.close();
    const both = [store.submit([{ jobs: [job("a")] }]), store.claim(aClaim())];
    for (const each of both) await expect(each).rejects.toMatchObject({ code: "closed" });
  });
});
