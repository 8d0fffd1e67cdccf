/**
 * The store keeps the contract on a real cluster of three primaries and three replicas, and lives there as on one
 * server.
 */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { Cluster } from "ioredis";
import { beforeAll, describe, expect, test } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Hint, Store } from "../../src/store/store.ts";
import { slotOf } from "../../src/stores/redis/connection/cluster-slot.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import type { RedisOptions } from "../../src/stores/redis/redis-store.ts";
import { aClaim, aJob, aSettle, finish, handBack } from "../support/builders.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { startRedisCluster } from "../support/servers/redis-cluster.ts";
import type { RedisCluster } from "../support/servers/redis-cluster.ts";
import { until } from "../support/until.ts";
import { auditAll, findAll } from "../support/walk.ts";
import { onePartition } from "../support/one-partition.ts";
import { describeStoreContract } from "./contract-suite.ts";

const partitions = 4;
let cluster: RedisCluster;
let made = 0;
beforeAll(async () => {
  cluster = await startRedisCluster();
  return () => cluster.stop();
});
const closeLater = closeAfterEach();

describeStoreContract(
  "A Redis cluster with all of a case in one of four partitions",
  async ({ platform }) => {
    const partition = made++ % partitions;
    const placement = { partitions, ofId: () => partition, ofName: () => partition, ofGates: partition };
    const prefix = randomBytes(6).toString("hex");
    const { url } = cluster;
    const store = await openRedisStore({ url, prefix, platform, clock: "platform", partitions, placement });
    return onePartition(store, partition);
  },
);

async function open(given: Partial<RedisOptions> = {}): Promise<Store> {
  const url = given.client === undefined ? { url: cluster.url } : {};
  return closeLater(await openRedisStore({ ...url, platform: nodePlatform, ...given }));
}

const submit = (store: Store, ...ids: readonly string[]): ReturnType<Store["submit"]> =>
  store.submit(ids.map((id) => ({ jobs: [aJob({ id })] })));
const many = Array.from({ length: 60 }, (_, n) => `job-${n}`);

describe("a store on a cluster", () => {
  test("gets 16 partitions where nobody says another number, keeps it, and refuses another one", async () => {
    const prefix = `p${++made}`;
    expect((await (await open({ prefix })).describe()).partitions).toBe(16);
    await expect(open({ prefix, partitions: 4 })).rejects.toMatchObject({ code: "partitions-differ" });
    await open({ prefix: `${prefix}-few`, partitions: 2 });
    expect((await (await open({ prefix: `${prefix}-few` })).describe()).partitions).toBe(2);
    await expect(open({ prefix: `${prefix}-none`, partitions: 0 })).rejects.toMatchObject({
      code: "invalid-option",
    });
  });

  test("spreads its jobs over the servers, and hands them out from all", async () => {
    const prefix = `p${++made}`;
    const store = await open({ prefix });
    await submit(store, ...many);
    const owners = new Set<string>();
    for (let number = 0; number < 16; number++)
      owners.add((await cluster.ownerOf(slotOf(`{${prefix}:${number}}`))).id);
    expect(owners.size).toBe(3);
    await store.claim(aClaim({ offers: [] }));
    const { jobs } = await store.claim(aClaim({ max: 100 }));
    expect(jobs.map(({ id }) => id).sort()).toEqual(many.toSorted());
    const answers = await store.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
    expect(answers.every(({ kind }) => kind === "ok")).toBe(true);
    expect(await store.countJobs()).toEqual([{ queue: "mail", name: "send", state: "completed", count: 60 }]);
  });

  test("hears of other processes' jobs in every partition, and again when the server that it listens on dies", async () => {
    const prefix = `p${++made}`;
    const [one, other] = [await open({ prefix }), await open({ prefix })];
    const hints: Hint[] = [];
    other.watch((hint) => hints.push(hint));
    const listening = async (): Promise<(typeof cluster.primaries)[number] | undefined> => {
      for (const member of cluster.primaries) {
        const flat = (await member.admin.call("PUBSUB", "NUMSUB", `{${prefix}:15}:hint`)) as [string, number];
        if (flat[1] === 1) return member;
      }
      return undefined;
    };
    await until("it listens", async () => (await listening()) !== undefined);
    const finished = (): string[] => hints.flatMap((hint) => (hint.kind === "finished" ? hint.ids : []));
    const runAll = async (ids: readonly string[]): Promise<void> => {
      await submit(one, ...ids);
      const { jobs } = await one.claim(aClaim({ max: 100, owner: "w9" }));
      await one.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
      await until("it hears of all", () => ids.every((id) => finished().includes(id)));
    };
    await runAll(many);
    const before = await listening();
    await before!.admin.call("CLIENT", "KILL", "TYPE", "pubsub");
    await until("it listens", async () => (await listening()) !== undefined);
    await runAll(many.map((id) => `${id}-again`));
    expect(new Set(finished()).size).toBe(120);
  });

  test("takes a cluster client of the caller's own, reads it and leaves it open", async () => {
    const client = new Cluster(
      cluster.primaries.map(({ server }) => ({ host: "127.0.0.1", port: server.port })),
    );
    const store = await open({ client, prefix: `p${++made}`, partitions: 3 });
    await submit(store, "a", "b", "c");
    await store.close();
    expect(await client.ping()).toBe("PONG");
    client.disconnect();
  });

  test("needs no more rights than its documentation lists", async () => {
    const page = readFileSync(new URL("../../docs/operating/redis.md", import.meta.url), "utf8");
    const commands = [...page.replaceAll("{millrace:0}", "{millrace:*}").matchAll(/^ACL SETUSER (.*)$/gm)];
    for (const { admin } of [...cluster.primaries, ...cluster.replicas])
      for (const [, listed = ""] of commands)
        await admin.call("ACL", "SETUSER", ...listed.split(" "), "+cluster|slots");
    const store = await open({ url: cluster.url.replace("//", "//millrace:password@"), partitions: 3 });
    const hints: Hint[] = [];
    store.watch((hint) => hints.push(hint));
    await submit(store, ...many);
    await store.claim(aClaim({ offers: [] }));
    const { jobs } = await store.claim(aClaim({ max: 100 }));
    expect(jobs).toHaveLength(60);
    await store.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
    expect(await auditAll(store)).toEqual({});
    expect(hints.some(({ kind }) => kind === "finished")).toBe(true);
  });

  test("says that no server answers, and that one of a cluster was named as if it were alone", async () => {
    const gone = open({ url: "redis://127.0.0.1:1,127.0.0.1:2/?cluster=true" });
    await expect(gone).rejects.toMatchObject({ code: "store-unavailable" });
    const [first] = cluster.primaries;
    await expect(open({ url: first!.server.url })).rejects.toMatchObject({ code: "store-misconfigured" });
  });

  test("waits while a slot is being moved, and goes on where it went and came back, with all its jobs", async () => {
    const prefix = `p${++made}`;
    const store = await open({ prefix, partitions: 2 });
    const slot = String(slotOf(`{${prefix}:0}`));
    const home = await cluster.ownerOf(Number(slot));
    const away = cluster.primaries.find((member) => member !== home)!;
    const seen = new Set<string>();
    const runSome = async (): Promise<void> => {
      const { jobs } = await store.claim(aClaim({ max: 10, owner: `w${seen.size}` }));
      expect(jobs).toHaveLength(10);
      for (const { id, fence } of jobs) seen.add(`${id} ${fence}`);
      const answers = await store.settleIfLeased(jobs.map((job) => aSettle(job, handBack)));
      expect(answers).toEqual(jobs.map(() => ({ kind: "ok" })));
    };
    await submit(store, ...many);
    await store.claim(aClaim({ offers: [] }));
    for (const [from, to] of [
      [home, away],
      [away, home],
    ] as const) {
      await runSome();
      await to.admin.call("CLUSTER", "SETSLOT", slot, "IMPORTING", from.id);
      await from.admin.call("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id);
      const [first, ...rest] = (await from.admin.call("CLUSTER", "GETKEYSINSLOT", slot, "1000")) as string[];
      const move = (...keys: string[]): Promise<unknown> =>
        from.admin.call("MIGRATE", "127.0.0.1", String(to.server.port), "", "0", "5000", "KEYS", ...keys);
      await move(first as string);
      await store.countJobs();
      expect(store.missing?.()).toMatchObject([{ number: 0, error: { code: "store-unavailable" } }]);
      await move(...rest);
      for (const { admin } of [to, from, ...cluster.primaries])
        await admin.call("CLUSTER", "SETSLOT", slot, "NODE", to.id);
      await until("all partitions answer", async () => {
        await store.countJobs();
        return store.missing?.().length === 0;
      });
    }
    await runSome();
    expect(seen.size).toBe(30);
    expect((await findAll(store)).map(({ id }) => id).sort()).toEqual(many.toSorted());
    expect(await auditAll(store)).toEqual({});
  });
});
