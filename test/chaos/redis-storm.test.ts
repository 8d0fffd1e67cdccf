/**
 * Everything at once, in an order that a seed draws: the server killed -9, paused and robbed of its library,
 * connections cut, silenced and slowed, workers and producers killed and frozen. The server syncs every write, so
 * nothing that was acknowledged may be missing; the history is judged by the same checker as the simulation.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { afterEach, beforeEach, expect, test } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import { startRedis } from "../support/servers/redis-server.ts";
import type { RedisServer } from "../support/servers/redis-server.ts";
import { openTcpProxy } from "../support/servers/tcp-proxy.ts";
import type { TcpProxy } from "../support/servers/tcp-proxy.ts";
import { connectAdmin } from "../support/servers/use-redis.ts";
import { auditAll } from "../support/walk.ts";
import { ChaosRun } from "./chaos-run.ts";
import type { ChaosProcess } from "./supervisor.ts";
import { judgeBy } from "../history/judge-by.ts";
import { until } from "../support/until.ts";

const leaseMs = 1500;
/**
 * Longer than a busy machine leaves a process without a processor while it opens its store, and shorter than the
 * longest silence.
 */
const callTimeoutMs = 1500;
const silenceMaxMs = 2000;
const faults = 25;
const jobs = 600;

let server: RedisServer;
let admin: Redis;
let proxy: TcpProxy;
let store: Store;
let run: ChaosRun;
beforeEach(async () => {
  server = await startRedis({ settings: [["appendfsync", "always"]] });
  admin = connectAdmin(server);
  proxy = await openTcpProxy({ port: server.port });
});
afterEach(async () => {
  await run.supervisor.killAll();
  await store.close();
  admin.disconnect();
  await proxy.close();
  await server.stop();
});

test.each([1, 4])(
  "in a storm of faults on %i partitions nothing acknowledged is lost, nothing is settled twice, and all that are there end",
  async (partitions) => {
    store = await openRedisStore({ url: server.url, platform: nodePlatform, partitions });
    run = new ChaosRun({ store, url: `redis://127.0.0.1:${proxy.port}` }, leaseMs);
    const random = createSeededRandom(process.env["MILLRACE_STORM"] ?? "storm");
    const options = { store: { redis: { callTimeout: callTimeoutMs } } };
    let started = 0;
    const startWorker = (): ChaosProcess =>
      run.start({ role: "worker", name: `worker-${++started}`, ...options });
    let workers = [startWorker(), startWorker(), startWorker()];
    await Promise.all(workers.map(({ ready }) => ready));
    const producers = [0, 1].map((half) => {
      const [from, to] = [(half * jobs) / 2 + 1, ((half + 1) * jobs) / 2];
      return run.start({ role: "producer", name: `producer-${half}`, from, to, everyMs: 8, ...options });
    });
    await Promise.all(producers.map(({ ready }) => ready));

    const storm: Readonly<Record<string, () => unknown>> = {
      cut: () => proxy.cut(),
      silence: async () => {
        if (random.chance(0.5)) proxy.halfOpen();
        else proxy.oneWay();
        await sleep(random.whole(50, silenceMaxMs));
        proxy.speakAgain();
      },
      slow: () => {
        proxy.delayMs = random.pick([0, 2, 20]);
        proxy.sliceBytes = random.pick([0, 50]);
      },
      pause: () =>
        admin.call("CLIENT", "PAUSE", String(random.whole(50, silenceMaxMs)), random.pick(["ALL", "WRITE"])),
      flush: () => admin.call("FUNCTION", "FLUSH", random.pick(["SYNC", "ASYNC"])),
      crash: async () => {
        await server.kill();
        await server.restart();
      },
      kill: () => {
        const victim = random.pick(workers);
        victim.send("SIGKILL");
        workers = [...workers.filter((each) => each !== victim), startWorker()];
      },
      freeze: () => {
        const victim = random.pick(workers);
        victim.send("SIGSTOP");
        void sleep(random.whole(leaseMs / 2, 2 * leaseMs)).then(() => victim.send("SIGCONT"));
      },
    };
    for (let fault = 0; fault < faults; fault++) {
      await sleep(random.whole(20, 400));
      await storm[random.pick(Object.keys(storm))]?.();
    }
    proxy.delayMs = proxy.sliceBytes = 0;
    proxy.heal();
    for (const each of workers) each.send("SIGCONT");
    // One that was started in the storm may have found no server.
    await startWorker().ready;
    await Promise.all(producers.map(({ exited }) => exited));
    await until("everything has ended", () => run.isDrained().catch(() => false));
    const evidence = await run.finish(false);

    const judge = judgeBy({ isSerial: partitions === 1 });
    expect(judge(evidence)).toEqual([]);
    const enqueues = evidence.operations.filter(({ kind }) => kind === "enqueue");
    expect(enqueues).toHaveLength(jobs);
    const acknowledged = enqueues.filter(({ seen }) => seen === "ok");
    expect(acknowledged.length).toBeGreaterThan(jobs / 2);
    const made = evidence.snapshot.jobs.filter(({ name }) => name === "work");
    expect(made.length).toBeGreaterThanOrEqual(acknowledged.length);
    expect(evidence.snapshot.jobs.every(({ state }) => state === "completed")).toBe(true);
    expect(evidence.snapshot.jobs.filter(({ leaseEndsAt }) => leaseEndsAt !== null)).toEqual([]);
    expect(await auditAll(store)).toEqual({});
    // The storm was felt.
    expect(evidence.operations.filter(({ seen }) => seen === "unknown").length).toBeGreaterThan(0);
  },
);
