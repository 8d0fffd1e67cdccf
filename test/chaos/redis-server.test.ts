/**
 * A real Redis whose administrator or disk does what it should not, and servers that are not what the URL says: each is
 * named by a stable code, nothing is written by halves, and everybody goes on when it is over.
 */
import type { Duration } from "../../src/model/duration.ts";
import { mkdirSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { Redis } from "ioredis";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import type { Store } from "../../src/store/store.ts";
import { handler } from "../../src/worker/handler.ts";
import { aJob } from "../support/builders.ts";
import { useOwnRedis } from "../support/servers/use-redis.ts";
import { auditAll } from "../support/walk.ts";
import { until } from "../support/until.ts";
import { millOn } from "../support/mill-on.ts";
import { hangMs } from "../support/hang-ms.ts";

const redis = useOwnRedis();
const { open } = redis;
let store: Store;
let prefix: string;
beforeEach(async () => {
  ({ prefix } = redis);
  store = await open();
});

function openMill(giveUp: Duration): Millrace {
  return redis.closeLater(millOn(store, { giveUp }));
}

const set = (name: string, value: string): Promise<unknown> => redis.admin.config("SET", name, value);
const killClients = (): Promise<unknown> =>
  Promise.all([
    redis.admin.call("CLIENT", "KILL", "TYPE", "pubsub"),
    redis.admin.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"),
  ]);
const failure = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => null,
    (error: unknown) => error,
  );
const plain = job<number, number>("plain", { retry: { backoff: 0 } });

/** A worker whose one handler waits to be let go. */
async function holdJob(
  mill: Millrace,
): Promise<{ result: Promise<number>; readonly letGo: () => void; readonly runs: () => number }> {
  const gate = Promise.withResolvers<void>();
  const began = Promise.withResolvers<void>();
  let runs = 0;
  const run = handler(plain, async ({ input }) => {
    runs += 1;
    began.resolve();
    await gate.promise;
    return input;
  });
  await mill.work([run], { lease: "3s" });
  const handle = await mill.enqueue(plain, 1);
  await began.promise;
  return { result: handle.result({ timeout: hangMs }), letGo: () => gate.resolve(), runs: () => runs };
}

describe("out of memory", () => {
  test("an enqueue is refused whole and by name; a settle waits, its job keeps its lease and ends once there is room", async () => {
    const mill = openMill("100ms");
    const { result, letGo, runs } = await holdJob(mill);
    onTestFinished(async () => void (await set("maxmemory", "0")));
    await set("maxmemory", "1");
    const full = { code: "store-full", retryable: true, outcome: "did-not-happen" };
    await expect(store.submit([{ jobs: [aJob({ id: "two" })] }])).rejects.toMatchObject(full);
    // A call in flight when the time is over may have happened, as far as the caller knows.
    const given = { code: expect.stringMatching(/^(store-full|outcome-unknown)$/) as string };
    await expect(mill.enqueue(plain, 2)).rejects.toMatchObject(given);
    const settlesBefore = await callsOf("fcall");
    letGo();
    await until("the settle was tried", async () => (await callsOf("fcall")) > settlesBefore + 2);
    expect(await auditAll(store)).toEqual({});
    await set("maxmemory", "0");
    expect(await result).toBe(1);
    expect(runs()).toBe(1);
    expect(await store.countJobs()).toMatchObject([{ state: "completed", count: 1 }]);
    expect(await auditAll(store)).toEqual({});
  });

  async function callsOf(command: string): Promise<number> {
    const stats = await redis.admin.info("commandstats");
    return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
  }
});

test("a server that cannot write its files refuses by name, and takes the same call when it can", async () => {
  // A folder where the snapshot should go: saving fails, and the server stops taking writes.
  const inTheWay = join(redis.server.folder, "dump.rdb");
  mkdirSync(inTheWay);
  onTestFinished(async () => void (await set("save", "")));
  await set("save", "3600 1");
  await redis.admin.bgsave();
  await until("saving has failed", async () =>
    (await redis.admin.info("persistence")).includes("rdb_last_bgsave_status:err"),
  );
  expect(await failure(store.submit([{ jobs: [aJob({ id: "a" })] }]))).toMatchObject({
    code: "store-full",
    outcome: "did-not-happen",
  });
  expect(await store.readJobs(["a"])).toEqual([null]);
  rmSync(inTheWay, { recursive: true });
  await redis.admin.bgsave();
  await until("saving works", async () =>
    (await redis.admin.info("persistence")).includes("rdb_last_bgsave_status:ok"),
  );
  expect(await store.submit([{ jobs: [aJob({ id: "a" })] }])).toMatchObject([{ kind: "ok" }]);
});

test("a server that wants more replicas than it has takes no writes, and says so", async () => {
  onTestFinished(async () => void (await set("min-replicas-to-write", "0")));
  await set("min-replicas-to-write", "1");
  const mill = openMill(hangMs);
  expect(await failure(store.submit([{ jobs: [aJob({ id: "a" })] }]))).toMatchObject({
    code: "store-unavailable",
    retryable: true,
    outcome: "did-not-happen",
  });
  const waiting = mill.enqueue(plain, 1, { id: "b" });
  await set("min-replicas-to-write", "0");
  expect((await waiting).id).toBe("b");
});

test("while somebody else's script holds the server, calls are refused as busy and did not happen; an enqueue waits for its end", async () => {
  // Of the next cases none may be called busy after 50 ms.
  onTestFinished(async () => void (await set("busy-reply-threshold", "5000")));
  await set("busy-reply-threshold", "50");
  const mill = openMill(hangMs);
  const loop = new Redis(redis.server.url, { maxRetriesPerRequest: 0 });
  const looping = failure(loop.call("EVAL", "while true do end", "0"));
  await until("the server is busy", async () => {
    const error = await failure(store.submit([{ jobs: [aJob({ id: "a" })] }]));
    if (error !== null) expect(error).toMatchObject({ code: "store-busy", outcome: "did-not-happen" });
    return error !== null;
  });
  const waiting = mill.enqueue(plain, 1, { id: "b" });
  await redis.admin.call("SCRIPT", "KILL");
  await looping;
  loop.disconnect();
  expect((await waiting).id).toBe("b");
});

test("a process that stood still while it connected finds the server all the same", async () => {
  const opening = open({ prefix: `${prefix}-late` });
  await new Promise((resolve) => void setImmediate(resolve));
  // Longer than a call waits for its connection.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2500);
  expect(await (await opening).submit([{ jobs: [aJob({ id: "a" })] }])).toMatchObject([{ kind: "ok" }]);
});

test("calls that wait for a connection leave nothing behind on the one that is gone", async () => {
  const warnings: Error[] = [];
  const listener = (warning: Error): void => void warnings.push(warning);
  process.on("warning", listener);
  onTestFinished(() => void process.off("warning", listener));
  const several = await open({ prefix: `${prefix}-several`, partitions: 16 });
  for (let round = 0; round < 3; round++) {
    await Promise.all([several.countJobs(), killClients()].map(failure));
    for (let call = 0; call < 5; call++)
      await Promise.all([several.countJobs(), several.describe(), store.describe()].map(failure));
    await until("calls go on", async () => (await failure(several.countJobs())) === null);
  }
  expect(warnings).toEqual([]);
});

describe("users and passwords", () => {
  const urlOf = (user: string): string => redis.server.url.replace("//", `//${user}@`);
  const rights = [
    ...["~*", "&*", "+@hash", "+@set", "+@sortedset", "+@list", "+@stream", "+@pubsub", "+@connection"],
    ...["+exists", "+unlink", "+type", "+time", "+info", "+fcall", "+function|load", "+config|get"],
  ];

  test("a password that is changed under an open store is named, and the store goes on when the old one is back", async () => {
    await redis.admin.call("ACL", "SETUSER", "mover", "on", ">right", ...rights);
    const moved = await open({ url: urlOf("mover:right") });
    await redis.admin.call("ACL", "SETUSER", "mover", "resetpass", ">other");
    await killClients();
    await until("the store is denied", async () => {
      const error = await failure(moved.describe());
      return error !== null && (error as { code?: string }).code === "store-denied";
    });
    const said = String(await failure(moved.describe()));
    expect(said).not.toContain("right");
    await redis.admin.call("ACL", "SETUSER", "mover", ">right");
    await until("the store answers", async () => (await failure(moved.describe())) === null);
    expect(await moved.submit([{ jobs: [aJob({ id: "a" })] }])).toMatchObject([{ kind: "ok" }]);
  });

  test("a right that is taken away under an open store stops a call half-way: that is said, and repeating it makes it whole", async () => {
    await redis.admin.call("ACL", "SETUSER", "narrowed", "on", ">secret", ...rights);
    const narrowed = await open({ url: urlOf("narrowed:secret") });
    await redis.admin.call("ACL", "SETUSER", "narrowed", "-@sortedset");
    expect(await failure(narrowed.submit([{ jobs: [aJob({ id: "a" })] }]))).toMatchObject({
      code: "store-denied",
      outcome: "unknown",
    });
    await redis.admin.call("ACL", "SETUSER", "narrowed", "+@sortedset");
    const repeated = await narrowed.submit([{ jobs: [aJob({ id: "a" })], isRepeat: true }]);
    expect(repeated).toMatchObject([{ kind: "ok", ids: ["a"] }]);
    await auditAll(narrowed);
    expect(await auditAll(narrowed)).toEqual({});
    expect(await narrowed.readJobs(["a"])).toMatchObject([{ state: "ready" }]);
  });
});

describe("keys and libraries of others", () => {
  test("a key of another program among the store's own stops a call half-way: that is said by name", async () => {
    await redis.admin.set(`{${prefix}:0}:tag:mine`, "theirs");
    expect(await failure(store.submit([{ jobs: [aJob({ id: "a", tags: ["mine"] })] }]))).toMatchObject({
      code: "not-a-store",
      outcome: "unknown",
    });
    expect(await redis.admin.get(`{${prefix}:0}:tag:mine`)).toBe("theirs");
    // Whatever of it was written keeps its place: no later job is written over it.
    await store.submit([{ jobs: [aJob({ id: "later" })] }]);
    const seqs = (await store.readJobs(["a", "later"])).flatMap((each) => (each === null ? [] : [each.seq]));
    expect(new Set(seqs).size).toBe(seqs.length);
    await redis.admin.del(`{${prefix}:0}:tag:mine`);
    await auditAll(store);
    expect(await auditAll(store)).toEqual({});
    expect(await store.submit([{ jobs: [aJob({ id: "b", tags: ["mine"] })] }])).toMatchObject([
      { kind: "ok" },
    ]);
  });

  test("a store whose layout has no version that makes sense is not taken for one", async () => {
    await redis.admin.hset("{odd:0}:meta", "kind", "millrace", "version", "abc");
    await expect(open({ prefix: "odd" })).rejects.toMatchObject({ code: "not-a-store" });
    expect(await redis.admin.hgetall("{odd:0}:meta")).toEqual({ kind: "millrace", version: "abc" });
  });

  test("a store whose meta key was evicted or deleted is refused, and not begun anew over what is left", async () => {
    await store.submit([{ jobs: [aJob({ id: "a" })] }]);
    const meta = await redis.admin.hgetall(`{${prefix}:0}:meta`);
    await redis.admin.del(`{${prefix}:0}:meta`);
    expect(await failure(store.readJobs(["a"]))).toMatchObject({ code: "not-a-store" });
    await expect(open()).rejects.toMatchObject({ code: "not-a-store" });
    await redis.admin.hset(`{${prefix}:0}:meta`, meta);
    expect(await store.readJobs(["a"])).toMatchObject([{ id: "a" }]);
  });

  test("a newer build of the library stays, and a library of another program with the same names is named", async () => {
    const [[, , , , , , , code] = []] = (await redis.admin.call(
      "FUNCTION",
      "LIST",
      "WITHCODE",
    )) as string[][];
    onTestFinished(async () => void (await redis.admin.call("FUNCTION", "FLUSH")));
    const newer = String(code).replace(/return "(\d+) \w+" end/, 'return "99 ffffffffffffffff" end');
    expect(newer).not.toBe(code);
    await redis.admin.call("FUNCTION", "LOAD", "REPLACE", newer);
    const other = await open();
    expect(await other.submit([{ jobs: [aJob({ id: "a" })] }])).toMatchObject([{ kind: "ok" }]);
    expect(await redis.admin.call("FCALL", "mr1_build", "0")).toMatch(/^99 /);

    await redis.admin.call("FUNCTION", "FLUSH");
    const foreign = `#!lua name=theirs\nredis.register_function("mr1_lap", function() return "theirs" end)`;
    await redis.admin.call("FUNCTION", "LOAD", foreign);
    await expect(open()).rejects.toMatchObject({ code: "store-misconfigured" });
    await redis.admin.call("FUNCTION", "DELETE", "theirs");
    expect(await store.readJobs(["a"])).toMatchObject([{ id: "a" }]);
  });
});

describe("settings that change under an open store", () => {
  test("an eviction policy is seen with the next connection, and the store goes on when it is right again", async () => {
    onTestFinished(async () => void (await set("maxmemory-policy", "noeviction")));
    await set("maxmemory-policy", "allkeys-lru");
    await killClients();
    await until("the store refuses", async () => {
      const error = await failure(store.describe());
      return error !== null && (error as { code?: string }).code === "store-misconfigured";
    });
    await set("maxmemory-policy", "noeviction");
    expect(await store.submit([{ jobs: [aJob({ id: "a" })] }])).toMatchObject([{ kind: "ok" }]);
  });

  test("a server that no longer syncs every write is refused by a strict store with the next connection", async () => {
    onTestFinished(async () => {
      await set("appendonly", "yes");
      await set("appendfsync", "everysec");
    });
    await set("appendfsync", "always");
    const strict = await open({ durability: "strict" });
    await set("appendonly", "no");
    await killClients();
    await until("the store refuses", async () => {
      const error = await failure(strict.submit([{ jobs: [aJob({ id: "a" })] }]));
      return error !== null && (error as { code?: string }).code === "durability-refused";
    });
    expect(await store.readJobs(["a"])).toEqual([null]);
  });
});

describe("what the URL leads to", () => {
  test("a database number that the server does not have", async () => {
    await expect(open({ url: `${redis.server.url}/99` })).rejects.toMatchObject({ code: "store-missing" });
    expect(await redis.admin.exists(`{${prefix}:0}:meta`)).toBe(1);
  });

  test("two databases of one server under one prefix are two stores", async () => {
    const elsewhere = await open({ url: `${redis.server.url}/7` });
    for (const [at, id] of ["a", "b", "c"].entries()) {
      await store.submit([{ jobs: [aJob({ id })] }]);
      if (at > 0) await elsewhere.submit([{ jobs: [aJob({ id: `${id}-there` })] }]);
    }
    expect((await store.readJobs(["a", "b", "c", "c-there"])).map((each) => each?.seq)).toEqual([
      1,
      2,
      3,
      undefined,
    ]);
    expect((await elsewhere.readJobs(["b-there", "c-there", "a"])).map((each) => each?.seq)).toEqual([
      1,
      2,
      undefined,
    ]);
    // Somebody swaps them: each store goes on with what it finds.
    await redis.admin.call("SWAPDB", "0", "7");
    onTestFinished(async () => void (await redis.admin.call("SWAPDB", "0", "7")));
    expect(await store.readJobs(["a"])).toEqual([null]);
    await store.submit([{ jobs: [aJob({ id: "d" })] }]);
    await elsewhere.submit([{ jobs: [aJob({ id: "e" })] }]);
    expect((await store.readJobs(["b-there", "c-there", "d"])).map((each) => each?.seq)).toEqual([1, 2, 3]);
    expect((await elsewhere.readJobs(["a", "c", "e"])).map((each) => each?.seq)).toEqual([1, 3, 4]);
    expect([await auditAll(store), await auditAll(elsewhere)]).toEqual([{}, {}]);
  });

  test("a server that speaks something else", async () => {
    const other = createServer((_, response) => response.end("hello"));
    await new Promise<void>((resolve) => void other.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void other.close());
    const { port } = other.address() as { port: number };
    await expect(open({ url: `redis://127.0.0.1:${port}` })).rejects.toMatchObject({
      code: "store-unavailable",
      outcome: "did-not-happen",
    });
  });

  test("a server without TLS, asked for it", async () => {
    await expect(open({ url: redis.server.url.replace("redis:", "rediss:") })).rejects.toMatchObject({
      code: "store-unavailable",
      outcome: "did-not-happen",
    });
  });

  test("a name that does not resolve", async () => {
    await expect(open({ url: "redis://no-such-host.invalid" })).rejects.toMatchObject({
      code: "store-unavailable",
    });
  });
});
