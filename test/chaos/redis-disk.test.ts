/**
 * A real server whose disk is full: its files may grow to a limit that the system sets, and writes beyond it fail as on
 * a full volume. Taken away again, it is as if room had been made. Where the system cannot set limits for a running
 * process (prlimit), this is named as not run.
 */
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { libraryText } from "../../src/stores/redis/library/library.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { aJob } from "../support/builders.ts";
import { redisBinary, startRedis } from "../support/servers/redis-server.ts";
import type { RedisServer } from "../support/servers/redis-server.ts";
import { connectAdmin } from "../support/servers/use-redis.ts";
import { auditAll } from "../support/walk.ts";
import { answers, until } from "../support/until.ts";

const prlimit = "/usr/bin/prlimit";
const canLimit = existsSync(prlimit);
/** The library stands in the append-only file, too. */
const limitKib = Math.ceil(libraryText.length / 1024) + 64;
const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

/**
 * The same server, started by a shell that sets the limit first. A write beyond it then fails instead of ending the
 * process.
 */
async function startLimited(appendfsync: "everysec" | "always"): Promise<RedisServer> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-limit-"));
  ends.push(() => rmSync(folder, { recursive: true, force: true }));
  const binary = join(folder, "limited");
  const lines = ["#!/bin/sh", "trap '' XFSZ", `ulimit -S -f ${limitKib * 2}`, `exec ${redisBinary()} "$@"`];
  writeFileSync(binary, `${lines.join("\n")}\n`);
  chmodSync(binary, 0o755);
  const server = await startRedis({ binary, settings: [["appendfsync", appendfsync]] });
  ends.push(() => server.stop());
  return server;
}

const makeRoom = ({ process: { pid } }: RedisServer): void => {
  expect(spawnSync(prlimit, ["--pid", String(pid), "--fsize=unlimited"]).status).toBe(0);
};

async function open({ url }: RedisServer): Promise<Store> {
  const store = await openRedisStore({ url, platform: nodePlatform });
  ends.push(() => store.close());
  return store;
}

/** Submits until one is refused. Answers the ids that were acknowledged, and the refusal. */
async function fill(store: Store): Promise<{ acknowledged: string[]; refusal: unknown; refused: string }> {
  const acknowledged: string[] = [];
  for (let number = 0; number < 1000; number++) {
    const id = `job-${number}`;
    const input = JSON.stringify("x".repeat(4000));
    try {
      await store.submit([{ jobs: [aJob({ id, input })] }]);
      acknowledged.push(id);
    } catch (refusal) {
      return { acknowledged, refusal, refused: id };
    }
  }
  throw new Error("the disk did not become full");
}

/**
 * While one sync is on its way, the next writes may wait in the server's memory for two seconds, acknowledged or not.
 */
async function hasWritten(server: RedisServer): Promise<boolean> {
  const admin = connectAdmin(server);
  const said = await admin.info("persistence");
  admin.disconnect();
  return said.includes("aof_buffer_length:0");
}

const missing = async (store: Store, ids: readonly string[]): Promise<number> =>
  (await store.readJobs(ids)).filter((each) => each === null).length;

describe.each(canLimit ? ["a limit on the size of files"] : [])("with %s", () => {
  test("every second synced: writes are refused by name until there is room, and nothing acknowledged is lost then", async () => {
    const server = await startLimited("everysec");
    const store = await open(server);
    const { acknowledged, refusal, refused } = await fill(store);
    expect(refusal).toMatchObject({ code: "store-full", outcome: "did-not-happen" });
    expect(acknowledged.length).toBeGreaterThan(5);
    expect(await store.readJobs([refused])).toEqual([null]);
    makeRoom(server);
    await until("writes are taken again", () =>
      store.submit([{ jobs: [aJob({ id: refused })] }]).then(
        () => true,
        () => false,
      ),
    );
    await until("the server has handed its file all that it acknowledged", () => hasWritten(server));
    await server.kill();
    await server.restart();
    makeRoom(server);
    await until("the store answers", () => answers(store));
    expect(await missing(store, [...acknowledged, refused])).toBe(0);
    expect(await auditAll(store)).toEqual({});
  });

  test("every write synced: the server ends itself rather than break its word, and all that was acknowledged is there afterwards", async () => {
    const server = await startLimited("always");
    const store = await open(server);
    const { acknowledged, refusal, refused } = await fill(store);
    expect(refusal).toMatchObject({ code: "outcome-unknown", outcome: "unknown" });
    await server.restart();
    makeRoom(server);
    await until("the store answers", () => answers(store));
    expect(await missing(store, acknowledged)).toBe(0);
    const again = await store.submit([{ jobs: [aJob({ id: refused })], isRepeat: true }]);
    expect(again).toMatchObject([{ kind: "ok", ids: [refused] }]);
    expect(await auditAll(store)).toEqual({});
  });
});

test.each(canLimit ? [] : ["prlimit is missing"])("NOT RUN: a full disk (%s)", () => {
  expect(canLimit).toBe(false);
});
