/**
 * The listening connection on real servers: directly, through a pooler that swallows messages, and over a line that
 * goes dead.
 */
import pg from "pg";
import { afterEach, describe, expect, test } from "vitest";
import { startPgbouncer } from "../../../../test/support/servers/pgbouncer.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { openTcpProxy } from "../../../../test/support/servers/tcp-proxy.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import type { Platform } from "../../../platform/platform.ts";
import type { Listener } from "../../../store/watch/watch.ts";
import type { PgListener } from "./driver.ts";
import { openListener } from "./listener.ts";
import { until } from "../../../../test/support/until.ts";

/** What takes a minute takes four seconds. */
const hasty: Platform = {
  ...nodePlatform,
  setTimer: (delayMs, run, keepsAlive) => nodePlatform.setTimer(delayMs / 15, run, keepsAlive),
};

const database = useTestDatabase();
const closings: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closings.splice(0).reverse()) await close();
});

function listenAt(url: string): {
  listener: Listener;
  heard: string[];
  /** Whether it listened, at each change. */
  changes: boolean[];
  /** How many of its connections have ended. */
  ended: () => number;
} {
  const heard: string[] = [];
  const changes: boolean[] = [];
  let ended = 0;
  const listener = openListener({
    platform: hasty,
    channel: "emitted",
    connect() {
      const client = new pg.Client({ connectionString: url, application_name: "the listener" });
      client.on("end", () => (ended += 1));
      return client as unknown as PgListener;
    },
    notify: (channel, payload) => database.query("SELECT pg_notify($1, $2)", [channel, payload]),
    heard: (payload) => heard.push(payload),
    changed: () => changes.push(listener.isListening()),
  });
  closings.push(() => listener.close());
  return { listener, heard, changes, ended: () => ended };
}

const emit = (payload: string): Promise<unknown> =>
  database.query("SELECT pg_notify('emitted', $1)", [payload]);

describe("a listening connection", () => {
  test("listens once its self-test came back, and hears others, but never hands out its self-test", async () => {
    const { listener, heard, changes } = listenAt(database.url);
    expect(listener.isListening()).toBe(false);
    await until("it listens", () => listener.isListening());
    await emit("a word");
    await until("it is heard", () => heard.length > 0);
    expect(heard).toEqual(["a word"]);
    expect(changes[0]).toBe(true);
    await listener.close();
    expect(listener.isListening()).toBe(false);
  });

  test("that is cut says so and comes back", async () => {
    const { listener, heard, changes } = listenAt(database.url);
    await until("it listens", () => listener.isListening());
    await database.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'the listener'",
    );
    await until("it listens again", () => changes.length >= 3);
    expect(changes.slice(0, 3)).toEqual([true, false, true]);
    await emit("again");
    await until("it is heard", () => heard.length > 0);
  });

  test("over a line that goes dead without a word is given up, made again, and closed without waiting for the dead one", async () => {
    const target = new URL(database.url);
    const proxy = await openTcpProxy({ port: Number(target.port), host: target.hostname });
    closings.push(() => proxy.close());
    target.hostname = "127.0.0.1";
    target.port = String(proxy.port);
    const { listener, changes } = listenAt(target.href);
    await until("it listens", () => listener.isListening());
    proxy.halfOpen();
    await until("it knows that it is not listening", () => changes.includes(false));
    proxy.heal();
    await until("it listens again", () => changes.length >= 3);
    expect(changes.slice(0, 3)).toEqual([true, false, true]);
    proxy.halfOpen();
    await listener.close();
  });

  test("through a pooler in transaction mode never counts as listening", async () => {
    const pooler = await startPgbouncer(database.url, 2);
    closings.push(() => pooler.stop());
    const { listener, changes, ended } = listenAt(pooler.url);
    await until("it has tried twice and given up", () => ended() >= 2);
    expect(listener.isListening()).toBe(false);
    expect(changes).toEqual([]);
  });
});
