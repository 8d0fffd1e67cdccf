import { readFileSync } from "node:fs";
import { Redis } from "ioredis";
import { describe, expect, test } from "vitest";
import { nodePlatform } from "../../platform/node-platform.ts";
import type { NewJob } from "../../store/records.ts";
import type { Hint, Store } from "../../store/store.ts";
import { aChange, aClaim, aJob, aRoute, aSettle, finish, remove } from "../../../test/support/builders.ts";
import { startRedis } from "../../../test/support/servers/redis-server.ts";
import { answers, until } from "../../../test/support/until.ts";
import { auditAll } from "../../../test/support/walk.ts";
import { useOwnRedis } from "../../../test/support/servers/use-redis.ts";
import { openRedisStore } from "./redis-store.ts";

const redis = useOwnRedis();
const { open } = redis;
const send = aRoute();

const submit = (store: Store, job: NewJob, isRepeat = false): ReturnType<Store["submit"]> =>
  store.submit([{ jobs: [job], isRepeat }]);

describe("opening", () => {
  test("says what an acknowledgement is worth under the server's persistence", async () => {
    const store = await open();
    const { kind, durability, acknowledged, capabilities } = await store.describe();
    expect({ kind, durability, capabilities }).toEqual({
      kind: "redis",
      durability: "relaxed",
      capabilities: { transactions: false, processes: "many" },
    });
    expect(acknowledged).toMatch(/last second may be lost \(appendfsync is everysec\)/);
  });

  test("refuses an eviction policy that can lose jobs, unless the options allow it", async () => {
    await redis.admin.config("SET", "maxmemory-policy", "allkeys-lru");
    await expect(open()).rejects.toMatchObject({ code: "store-misconfigured" });
    const { warnings } = await (await open({ allowEviction: true })).describe();
    expect(warnings.join()).toMatch(/allkeys-lru/);
    await redis.admin.config("SET", "maxmemory-policy", "noeviction");
  });

  test("works under a prefix with colons, spaces and other letters", async () => {
    const prefix = "a:b c: ünï 🐟 *?[x]";
    const store = await open({ prefix });
    await submit(store, aJob({ id: "a", tags: ["t"] }));
    expect(await store.readJobs(["a"])).toMatchObject([{ id: "a" }]);
    expect(await (await open({ prefix: "a:b c" })).readJobs(["a"])).toEqual([null]);
  });

  test("refuses keys of another program and a store of a newer layout, and leaves both as they are", async () => {
    await redis.admin.set("{taken:0}:meta", "mine");
    await expect(open({ prefix: "taken" })).rejects.toMatchObject({ code: "not-a-store" });
    await redis.admin.hset("{taken2:0}:spec", "a", "1");
    await expect(open({ prefix: "taken2" })).rejects.toMatchObject({ code: "not-a-store" });
    await redis.admin.hset("{newer:0}:meta", "kind", "millrace", "version", "99");
    await expect(open({ prefix: "newer" })).rejects.toMatchObject({ code: "schema-newer" });
    expect(await redis.admin.keys("{taken*")).toHaveLength(2);
    expect(await redis.admin.hgetall("{newer:0}:meta")).toEqual({ kind: "millrace", version: "99" });
  });

  test("refuses a prefix with braces, a URL of another kind and a client that is none", async () => {
    await expect(open({ prefix: "a{b" })).rejects.toMatchObject({ code: "invalid-option" });
    await expect(open({ url: "http://127.0.0.1" })).rejects.toMatchObject({ code: "unknown-store" });
    await expect(open({ client: {} })).rejects.toMatchObject({ code: "invalid-option" });
    for (const callTimeoutMs of [0, 1.5, Number.NaN, 1e9])
      await expect(open({ callTimeoutMs })).rejects.toMatchObject({ code: "invalid-option" });
  });

  test("takes a client of the caller's own, copies it and leaves it open", async () => {
    const client = new Redis(redis.server.url);
    const store = await open({ client });
    await submit(store, aJob({ id: "a" }));
    await store.close();
    expect(await client.ping()).toBe("PONG");
    client.disconnect();
  });

  test("says that nobody answers", async () => {
    const gone = openRedisStore({ url: "redis://127.0.0.1:1", platform: nodePlatform });
    await expect(gone).rejects.toMatchObject({ code: "store-unavailable", outcome: "did-not-happen" });
  });

  test("refuses a wrong password, a missing one and a user without the rights", async () => {
    await redis.admin.call(
      "ACL",
      "SETUSER",
      "narrow",
      "on",
      ">secret",
      "~*",
      "+ping",
      "+info",
      "+config|get",
    );
    const url = (user: string): string => redis.server.url.replace("//", `//${user}@`);
    await expect(open({ url: url("narrow:secret") })).rejects.toMatchObject({ code: "store-denied" });
    const rights = [
      "~*",
      "&*",
      "+@hash",
      "+@set",
      "+@sortedset",
      "+@list",
      "+unlink",
      "+type",
      "+exists",
      "+fcall",
      "+function",
    ];
    await redis.admin.call("ACL", "SETUSER", "narrow", ...rights);
    await expect(open({ url: url("narrow:secret"), prefix: "narrow" })).rejects.toMatchObject({
      code: "store-denied",
    });
    expect(await redis.admin.keys("{narrow:0}*")).toEqual([]);
    await expect(open({ url: url("narrow:wrong") })).rejects.toMatchObject({ code: "store-denied" });
    await redis.admin.config("SET", "requirepass", "secret");
    await expect(open()).rejects.toMatchObject({ code: "store-denied" });
    await open({ url: url("default:secret") });
    await redis.admin.config("SET", "requirepass", "");
  });

  test("needs no more rights than its documentation lists", async () => {
    const page = readFileSync(new URL("../../../docs/operating/redis.md", import.meta.url), "utf8");
    const commands = [...page.matchAll(/^ACL SETUSER (.*)$/gm)];
    expect(commands).toHaveLength(2);
    for (const [, listed = ""] of commands) await redis.admin.call("ACL", "SETUSER", ...listed.split(" "));
    const url = redis.server.url.replace("//", "//millrace:password@");
    const store = await open({ url, prefix: "millrace" });
    const hints: Hint[] = [];
    store.watch((hint) => hints.push(hint));
    await submit(store, aJob({ id: "a", tags: ["t"], unique: { key: "k", hold: 5, onHeld: "keep" } }));
    const [leased] = (await store.claim(aClaim())).jobs;
    await store.recordIfLeased([{ ...leased!, logs: ["line"] }]);
    await store.settleIfLeased([aSettle(leased!, finish())]);
    const all = { what: "history", outcome: "completed", queue: null, exceptQueues: [] } as const;
    await store.prune({ ...all, olderThanMs: 0, max: 9, cursor: null });
    await store.prune({ what: "feed", olderThanMs: 0, max: 9 });
    expect(await auditAll(store)).toEqual({});
    expect(hints).toContainEqual({ kind: "finished", ids: ["a"] });
  });

  test("refuses a replica", async () => {
    const replica = await startRedis({ settings: [["replicaof", `127.0.0.1 ${redis.server.port}`]] });
    try {
      await expect(open({ url: replica.url })).rejects.toMatchObject({ code: "store-read-only" });
    } finally {
      await replica.stop();
    }
  });
});

describe("trouble while open", () => {
  test("a server without memory refuses writes whole, still extends, prunes and removes, and goes on when there is room", async () => {
    const store = await open();
    await submit(store, aJob({ id: "a" }));
    await submit(store, aJob({ id: "c", queue: "later" }));
    const [leased] = (await store.claim(aClaim())).jobs;
    await redis.admin.config("SET", "maxmemory", "1");
    await expect(submit(store, aJob({ id: "b" }))).rejects.toMatchObject({ code: "store-full" });
    const renewal = { owner: "w1", leaseMs: 9000, leases: [leased!], wantsOthers: false };
    expect((await store.extendIfLeased(renewal)).answers).toEqual(["ok"]);
    expect(await store.prune({ what: "kept", max: 5 })).toMatchObject({ pruned: 0 });
    // Room can be made: jobs are removed, also after a restart, when the store must be entered first.
    await redis.admin.hdel(`{${redis.prefix}:0}:meta`, "token");
    expect(await store.changeIf([aChange("c", ["ready"], remove)])).toMatchObject([{ kind: "ok" }]);
    await redis.admin.config("SET", "maxmemory", "0");
    expect(await store.readJobs(["c"])).toEqual([null]);
    expect(await store.readJobs(["b"])).toEqual([null]);
    expect(await submit(store, aJob({ id: "b" }))).toMatchObject([{ kind: "ok" }]);
  });

  test("a flushed library is loaded again by the next call", async () => {
    const store = await open();
    await redis.admin.call("FUNCTION", "FLUSH");
    const { epoch } = await store.describe();
    expect(await submit(store, aJob({ id: "a" }))).toMatchObject([{ kind: "ok" }]);
    expect((await store.describe()).epoch).toBe(epoch);
  });

  test("a flushed server is an empty store with a higher epoch", async () => {
    const store = await open();
    await submit(store, aJob({ id: "a" }));
    const { epoch } = await store.describe();
    await redis.admin.flushall();
    expect(await store.readJobs(["a"])).toEqual([null]);
    expect((await store.describe()).epoch).toBeGreaterThan(epoch);
    expect(await submit(store, aJob({ id: "a" }))).toMatchObject([{ hows: ["created"] }]);
  });

  test("a reply that is lost leaves a write unknown; repeated after the restart it is one job, under a higher epoch", async () => {
    const store = await open();
    await submit(store, aJob({ id: "a" }));
    const [before] = (await store.claim(aClaim())).jobs;
    redis.server.process.kill("SIGSTOP");
    const both = Promise.allSettled([submit(store, aJob({ id: "b" })), store.readJobs(["a"])]);
    await redis.server.kill();
    expect(await both).toMatchObject([
      { reason: { code: "outcome-unknown", outcome: "unknown" } },
      { reason: { code: "store-unavailable", outcome: "did-not-happen" } },
    ]);
    await expect(submit(store, aJob({ id: "c" }))).rejects.toMatchObject({
      code: "store-unavailable",
      outcome: "did-not-happen",
    });
    await redis.server.restart();
    await until("the store answers", () => answers(store));
    expect(await submit(store, aJob({ id: "b" }), true)).toMatchObject([{ kind: "ok", ids: ["b"] }]);
    const [after] = (await store.claim(aClaim({ max: 9 }))).jobs;
    expect(after?.id).toBe("b");
    const epochOf = ({ fence }: { readonly fence: number }): number => Math.floor(fence / 2 ** 32);
    expect(epochOf(after!)).toBeGreaterThan(epochOf(before!));
  });

  test("a closed store refuses calls, and closing twice is no error", async () => {
    const store = await open();
    await store.close();
    await store.close();
    await expect(store.describe()).rejects.toMatchObject({ code: "closed" });
  });

  test("the caller's transaction is refused with its own code", async () => {
    const store = await open();
    expect(() => store.inTransaction({})).toThrowError(
      expect.objectContaining({ code: "not-in-transaction" }),
    );
  });
});

describe("several processes", () => {
  test("hints of another store's calls arrive, and own ones only once", async () => {
    const { prefix } = redis;
    const [one, other] = [await open(), await open()];
    const heard: Hint[] = [];
    const own: Hint[] = [];
    one.watch((hint) => own.push(hint));
    other.watch((hint) => heard.push(hint));
    await until("both listen", async () => {
      const [, count] = (await redis.admin.call("PUBSUB", "NUMSUB", `{${prefix}:0}:hint`)) as [
        string,
        number,
      ];
      return count === 2;
    });
    await submit(one, aJob({ id: "a" }));
    await until("it hears of the job", () =>
      heard.some((hint) => hint.kind === "ready" && hint.routes.includes(send)),
    );
    const [leased] = (await one.claim(aClaim({ owner: "w5" }))).jobs;
    await one.changeIf([
      {
        id: "a",
        cases: [
          { guard: { states: ["running"] }, next: { to: "same", event: "cancel-asked", cancelAsked: true } },
        ],
      },
    ]);
    await one.settleIfLeased([aSettle(leased!, finish())]);
    await until("it hears of the end", () => heard.some((hint) => hint.kind === "finished"));
    expect(heard).toContainEqual({ kind: "cancel", ids: ["a"], owner: "w5" });
    expect(heard).toContainEqual({ kind: "finished", ids: ["a"] });
    expect(own.filter((hint) => hint.kind === "finished")).toHaveLength(1);
  });

  test("a listener that lost its connection hears again", async () => {
    const { prefix } = redis;
    const [one, other] = [await open(), await open()];
    const heard: Hint[] = [];
    other.watch((hint) => heard.push(hint));
    const listens = async (): Promise<boolean> => {
      const [, count] = (await redis.admin.call("PUBSUB", "NUMSUB", `{${prefix}:0}:hint`)) as [
        string,
        number,
      ];
      return count === 1;
    };
    await until("it listens", listens);
    await redis.admin.call("CLIENT", "KILL", "TYPE", "pubsub");
    await until("it listens", listens);
    await submit(one, aJob({ id: "a" }));
    await until("it hears", () => heard.length > 0);
    expect(heard).toContainEqual({ kind: "ready", routes: [send] });
  });
});
