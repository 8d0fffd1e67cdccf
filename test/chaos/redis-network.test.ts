/**
 * A real Redis behind a proxy that breaks connections, and what only such a server meets: a pause, its own kills, a
 * flushed library. A worker is never silent afterwards.
 */
import { describe, expect, onTestFinished, test } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Hint } from "../../src/store/store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { handler } from "../../src/worker/handler.ts";
import { aJob } from "../support/builders.ts";
import { openTcpProxy } from "../support/servers/tcp-proxy.ts";
import { useOwnRedis } from "../support/servers/use-redis.ts";
import {
  away,
  callTimeoutMs,
  coded,
  countJobs,
  describeNetwork,
  echo,
  plain,
  unknown,
  usePlace,
} from "./network-suite.ts";
import type { NetworkPlace } from "./network-suite.ts";
import { answers, until } from "../support/until.ts";
import { hangMs } from "../support/hang-ms.ts";

const redis = useOwnRedis();

async function open(given: { readonly callTimeoutMs?: number } = {}): Promise<NetworkPlace> {
  const { prefix, server } = redis;
  const proxy = await openTcpProxy({ port: server.port });
  const url = `redis://127.0.0.1:${proxy.port}`;
  const direct = await openRedisStore({ url: server.url, platform: nodePlatform, prefix });
  const store = await openRedisStore({ url, platform: nodePlatform, prefix, ...given });
  return { proxy, store, direct };
}

describeNetwork({
  title: "a network that breaks before Redis",
  words: {
    // The operations of a flush, as arguments of its call.
    submit: "\r\nsubmit\r\n",
    submitKeyed: "\r\nsubmit\r\n",
    claim: "\r\nclaim\r\n",
    settle: "\r\nsettle\r\n",
    readJobs: "mr1_read_jobs",
  },
  open,
});

describe("a Redis that is silent, paused, full or kills", () => {
  const place = usePlace(() => open({ callTimeoutMs }));
  const { openMill } = place;

  /** Connections that listen for hints of this case. */
  const listeners = async (): Promise<number> =>
    ((await redis.admin.call("PUBSUB", "NUMSUB", `{${redis.prefix}:0}:hint`)) as [string, number])[1];

  test("a connection that falls silent ends its calls as unknown and is replaced, without anybody closing it", async () => {
    const { proxy, store, direct } = place;
    await store.readJobs(["a"]);
    proxy.halfOpen();
    await expect(store.submit([{ jobs: [aJob({ id: "a" })] }])).rejects.toThrow(unknown);
    expect(await countJobs(direct)).toBe(0);
    // While new connections are swallowed too, calls say so within their time.
    await expect(store.readJobs(["a"])).rejects.toThrow(away);
    proxy.speakAgain();
    await until("the store answers on a new connection", () => answers(store));
    proxy.oneWay();
    await expect(store.submit([{ jobs: [aJob({ id: "b" })] }])).rejects.toThrow(unknown);
    proxy.speakAgain();
    await until("the store answers on a new connection", () => answers(store));
    expect(await countJobs(direct)).toBe(1);
    await store.submit([{ jobs: [aJob({ id: "c" })] }]);
    expect((await direct.readJobs(["a", "b", "c"])).map((each) => each?.id)).toEqual([undefined, "b", "c"]);
  });

  test("a listening connection that falls silent is found by its ping, and the new one hears", async () => {
    const { proxy, store, direct } = place;
    const hints: Hint[] = [];
    store.watch((hint) => hints.push(hint));
    await until("the store listens", async () => (await listeners()) === 1);
    const before = (await redis.admin.client("LIST", "TYPE", "PUBSUB")) as string;
    proxy.halfOpen();
    proxy.speakAgain();
    const ids = (list: string): string[] => [...list.matchAll(/^id=(\d+)/gm)].map(([, id = ""]) => id);
    await until("another connection listens", async () => {
      const now = ids((await redis.admin.client("LIST", "TYPE", "PUBSUB")) as string);
      return now.some((id) => !ids(before).includes(id));
    });
    let count = 0;
    await until("it hears", async () => {
      await direct.submit([{ jobs: [aJob({ id: `x-${++count}` })] }]);
      return hints.some(({ kind }) => kind === "ready");
    });
    expect(await listeners()).toBeGreaterThan(0);
  });

  test("while the server is paused calls end as unknown; afterwards each acknowledged or repeated job is there once", async () => {
    const { store, direct } = place;
    const mill = openMill(store, "20s");
    await mill.work([echo], { lease: "3s" });
    await (await mill.enqueue(plain, 0)).result({ timeout: hangMs });
    await redis.admin.call("CLIENT", "PAUSE", String(2 * callTimeoutMs), "ALL");
    await expect(store.submit([{ jobs: [aJob({ id: "late" })] }])).rejects.toThrow(unknown);
    const handles = await Promise.all([1, 2, 3].map((number) => mill.enqueue(plain, number)));
    const results = await Promise.all(handles.map((handle) => handle.result({ timeout: hangMs })));
    expect(results).toEqual([1, 2, 3]);
    const counts = await direct.countJobs();
    expect(counts.filter(({ state }) => state === "completed")).toMatchObject([{ count: 4 }]);
  });

  test("a worker goes on after both of its connections were killed by the server, and hears of others' jobs at once", async () => {
    const { store, direct } = place;
    const mill = openMill(store, "10s");
    await mill.work([echo]);
    const other = openMill(direct, "10s");
    expect(await (await other.enqueue(plain, 1)).result({ timeout: hangMs })).toBe(1);
    for (let round = 2; round < 5; round++) {
      await redis.admin.call("CLIENT", "KILL", "TYPE", "pubsub");
      await redis.admin.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
      expect(await (await other.enqueue(plain, round)).result({ timeout: hangMs })).toBe(round);
    }
    await until("both listen again", async () => (await listeners()) === 2);
  });

  test("a library flushed under load is loaded again, and nothing is lost or run twice", async () => {
    const { store, direct } = place;
    const mill = openMill(store, "20s");
    const runs = new Map<number, number>();
    const counted = handler(plain, async ({ input }) => (runs.set(input, (runs.get(input) ?? 0) + 1), input));
    await mill.work([counted], { concurrency: 10 });
    const handles = [];
    for (let number = 0; number < 300; number += 10) {
      const batch = Array.from({ length: 10 }, (_, index) => plain.with(number + index));
      handles.push(...(await mill.enqueueMany(batch)));
      if (number % 50 === 0) await redis.admin.call("FUNCTION", "FLUSH", "SYNC");
    }
    await Promise.all(handles.map((handle) => handle.result({ timeout: hangMs })));
    expect(runs.size).toBe(300);
    expect([...runs.values()].every((times) => times === 1)).toBe(true);
    expect(await direct.countJobs()).toMatchObject([{ state: "completed", count: 300 }]);
  });

  test("a server that takes no more connections says so, and an enqueue waits for one", async () => {
    const { proxy, store, direct } = place;
    const [, max] = (await redis.admin.config("GET", "maxclients")) as [string, string];
    onTestFinished(async () => void (await redis.admin.config("SET", "maxclients", max)));
    const list = ((await redis.admin.client("LIST")) as string).trim().split("\n").length;
    await redis.admin.config("SET", "maxclients", String(list));
    await expect(redis.open()).rejects.toThrow(coded("too-many-connections", "did-not-happen"));
    // The store's connection is lost, and somebody else takes its place.
    await redis.admin.config("SET", "maxclients", String(list - 1));
    proxy.cut();
    const mill = openMill(store, "20s");
    const waiting = mill.enqueue(plain, 1);
    await until("the store is refused", () =>
      store.readJobs(["a"]).then(
        () => false,
        (error: unknown) => coded("too-many-connections", "did-not-happen").asymmetricMatch(error),
      ),
    );
    await redis.admin.config("SET", "maxclients", max);
    await waiting;
    expect(await countJobs(direct)).toBe(1);
  });
});
