/**
 * A cluster under load whose primary is killed without a word: its replica is promoted, the workers go on by
 * themselves, no fence is given twice, and what an asynchronous failover may lose is lost by the killed primary's
 * partitions and from its last moments only.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import { createPlacement } from "../../src/model/routing/placement.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { slotOf } from "../../src/stores/redis/connection/cluster-slot.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { handler } from "../../src/worker/handler.ts";
import { testMaxMs } from "../support/hang-ms.ts";
import { startRedisCluster } from "../support/servers/redis-cluster.ts";
import type { ClusterMember, RedisCluster } from "../support/servers/redis-cluster.ts";
import { aJob } from "../support/builders.ts";
import { auditAll } from "../support/walk.ts";
import { until } from "../support/until.ts";
import { millOn } from "../support/mill-on.ts";

const partitions = 16;
const placement = createPlacement(partitions);
const tick = job<{ readonly n: number }>("tick", {
  retry: { attempts: 50, backoff: { kind: "fixed", delay: 20, jitter: "none" } },
});

let cluster: RedisCluster;
const opened: Millrace[] = [];
// Each case breaks its cluster for good.
beforeEach(async () => {
  cluster = await startRedisCluster({ nodeTimeoutMs: 2000 });
});
afterEach(async () => {
  await Promise.all(opened.splice(0).map((mill) => mill.close()));
  await cluster.stop();
});

async function openMill(
  given: Store | null = null,
): Promise<{ mill: Millrace; store: Store; claimed: string[] }> {
  const inner = given ?? (await openRedisStore({ url: cluster.url, platform: nodePlatform }));
  const claimed: string[] = [];
  const store: Store = {
    ...inner,
    async claim(request) {
      const answer = await inner.claim(request);
      for (const { id, seq, fence } of answer.jobs) claimed.push(`${id} ${seq} ${fence}`);
      return answer;
    },
  };
  const mill = millOn(store, { giveUp: "20s" });
  opened.push(mill);
  return { mill, store, claimed };
}

/** The partitions by the primary that has them. */
async function homes(): Promise<Map<ClusterMember, number[]>> {
  const found = new Map<ClusterMember, number[]>();
  for (let number = 0; number < partitions; number++) {
    const owner = await cluster.ownerOf(slotOf(`{millrace:${number}}`));
    found.set(owner, [...(found.get(owner) ?? []), number]);
  }
  return found;
}

/** How much a primary wrote, or its replica has. */
async function offsetOf({ admin }: ClusterMember, role: "master" | "slave"): Promise<number> {
  return Number(new RegExp(`${role}_repl_offset:(\\d+)`).exec(await admin.info("replication"))?.[1]);
}

describe("a primary of a cluster that dies under load", () => {
  test("is replaced: no job hangs, no fence comes twice, and only its last moments are lost", async () => {
    const producer = await openMill();
    expect((await producer.mill.describe()).partitions).toBe(partitions);
    const workers = [await openMill(), await openMill()];
    const runs: string[] = [];
    for (const { mill } of workers)
      await mill.work([handler(tick, async ({ fence }) => void runs.push(fence.key))], {
        concurrency: 10,
        lease: 3000,
      });

    const acked = new Map<string, number>();
    let isOver = false;
    const produce = async (from: number): Promise<void> => {
      for (let n = from; !isOver; n += 4) {
        try {
          const { id } = await producer.mill.enqueue(tick, { n }, n % 3 === 0 ? { id: `given-${n}` } : {});
          acked.set(id, nodePlatform.now());
        } catch {
          // Refused while the primary is away.
        }
        await new Promise((resolve) => void setTimeout(resolve, 2));
      }
    };
    const producing = Promise.all([0, 1, 2, 3].map(produce));
    await until("load runs", () => acked.size > 500 && runs.length > 300);

    const before = await homes();
    const [victim, lost] = [...before].toSorted((one, other) => other[1].length - one[1].length)[0]!;
    const slot = slotOf(`{millrace:${lost[0]}}`);
    // The replica has all that was acknowledged so far, and then falls behind, as it may at any time: whatever comes
    // now is lost with the primary.
    const levelAt = nodePlatform.now();
    const written = await offsetOf(victim, "master");
    const follower = cluster.replicas[cluster.primaries.indexOf(victim)]!;
    await until("the replica has it", async () => (await offsetOf(follower, "slave")) >= written);
    await victim.admin.call("ACL", "SETUSER", "default", "-psync", "-sync");
    await victim.admin.call("CLIENT", "KILL", "TYPE", "replica");
    const cutAt = nodePlatform.now();
    const isThere = (id: string): boolean => lost.includes(placement.ofId(id));
    const ackedThere = (): number => [...acked].filter(([id, at]) => at > cutAt && isThere(id)).length;
    await until("acknowledged jobs are not replicated", () => ackedThere() > 30);
    await victim.server.kill();
    await until("the replica is promoted", async () => (await cluster.ownerOf(slot)) !== victim);
    const promotedAt = nodePlatform.now();
    const ranBefore = runs.length;
    await until("the replica's partitions work again", () => {
      const later = [...acked].filter(([id, at]) => at > promotedAt && isThere(id));
      return later.length > 50 && runs.length > ranBefore + 200;
    });
    isOver = true;
    await producing;

    const isLive = ({ state }: { state: string }): boolean =>
      ["ready", "running", "scheduled"].includes(state);
    const ids = [...acked.keys()];
    // Counts leave out a partition that has not answered since the failover; a read by id waits for it.
    await until("all is done", async () => {
      const [counts, found] = await Promise.all([
        producer.store.countJobs(),
        producer.store.readJobs(ids).catch(() => null),
      ]);
      return found !== null && ![...counts, ...found].some((each) => each !== null && isLive(each));
    });
    const records = await producer.store.readJobs(ids);
    const missing = ids.filter((_, index) => records[index] === null);
    expect(missing.filter((id) => !isThere(id))).toEqual([]);
    expect(missing.length).toBeGreaterThan(0);
    expect(missing.filter((id) => (acked.get(id) as number) < levelAt)).toEqual([]);
    expect(missing.filter((id) => (acked.get(id) as number) > promotedAt)).toEqual([]);
    expect(records.filter((record) => record !== null && record.state !== "completed")).toEqual([]);

    const claimed = workers.flatMap((worker) => worker.claimed);
    expect(claimed.filter((lease, index) => claimed.indexOf(lease) !== index)).toEqual([]);
    expect(runs.filter((key, index) => runs.indexOf(key) !== index)).toEqual([]);
    expect(await auditAll(producer.store)).toEqual({});
  });

  test("that falls silent instead is left as soon as its replica is promoted, whatever the call's own limit is", async () => {
    const callTimeoutMs = 2 * testMaxMs;
    const own = await openRedisStore({ url: cluster.url, platform: nodePlatform, callTimeoutMs });
    const { store } = await openMill(own);
    const homesNow = [...(await homes())];
    const [frozen, partitionsThere] = homesNow[0]!;
    const ids = Array.from({ length: 400 }, (_, n) => `silent-${n}`);
    const there = ids.filter((each) => partitionsThere.includes(placement.ofId(each))).slice(0, 3);
    expect(there).toHaveLength(3);
    const submit = (given: string, isRepeat: boolean): ReturnType<Store["submit"]> =>
      store.submit([{ jobs: [aJob({ id: given, digest: "d" })], isRepeat }]);
    expect(await submit(there[0]!, false)).toMatchObject([{ hows: ["created"] }]);
    await until("the replica has it", async () => {
      const said = await frozen.admin.info("replication");
      const [, written] = /master_repl_offset:(\d+)/.exec(said) ?? [];
      return written !== undefined && said.includes(`offset=${written},`);
    });
    frozen.server.process.kill("SIGSTOP");
    const error: unknown = await submit(there[1]!, false).catch((each: unknown) => each);
    expect(error).toMatchObject({ code: "outcome-unknown" });
    expect(await submit(there[1]!, true)).toMatchObject([{ hows: ["created"] }]);
    frozen.server.process.kill("SIGCONT");
    expect(await submit(there[2]!, false)).toMatchObject([{ hows: ["created"] }]);
    await until("the old primary has become a replica", async () =>
      (await frozen.admin.info("replication")).includes("role:slave"),
    );
    expect((await store.readJobs(there)).map((record) => record?.id)).toEqual(there);
  });
});
