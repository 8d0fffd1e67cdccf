/**
 * The process that delivers webhooks is killed -9 while receivers have its requests and have not answered. Every event
 * is delivered all the same, under one id, and to an ordered hook never before the one in front of it was accepted.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { job, Millrace } from "../../src/index.ts";
import { startScript } from "../support/start-script.ts";
import { until } from "../support/until.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";
import { openReceiver } from "../support/servers/webhook-receiver.ts";
import type { Received, Receiver } from "../support/servers/webhook-receiver.ts";

const script = fileURLToPath(new URL("webhook-process.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "millrace-webhooks-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const database = useTestDatabase();
const redis = useSharedRedis();
const order = job<number>("order");
/** Of each part: before the kill, while nobody delivers, and behind it. */
const events = 15;
/**
 * How often a process is killed; each time, another has to wait for its leader lease and for the leases of its
 * deliveries.
 */
const kills = Number(process.env["MILLRACE_KILLS"] ?? 1);
const quick = { attempts: 20, backoff: 10 };
const secret = "a secret of enough length";

const urls: [store: string, url: () => string, receiver: Receiver][] = [
  ["SQLite", () => `sqlite:${join(folder, "jobs.db")}`, await openReceiver()],
  ["Postgres", () => `${database.url}?schema=webhooks`, await openReceiver()],
  ["Redis", () => `${redis.prefixes.url}?prefix=${redis.prefixes.next()}`, await openReceiver()],
];

// All wait for the same clocks, so they wait together.
describe.concurrent.each(urls)("on %s", (_store, place, receiver) => {
  test("no event is lost and an ordered hook keeps its order, whoever is killed", async () => {
    const url = place();
    const mill = await Millrace.open(url, { log: false });
    const start = () => startScript(script, [url], () => undefined);
    let delivering: ReturnType<typeof start> | null = null;
    try {
      for (const name of ["ordered", "loose"]) {
        const wanted = { kinds: "submitted", name: "order", ordered: name === "ordered" } as const;
        await mill.webhooks.add(name, { url: `${receiver.url}/${name}`, secret, retry: quick, ...wanted });
      }
      let enqueued = 0;
      const held = new Set<string>();
      let hold = Promise.withResolvers<number>();
      let isHolding = true;
      const accepted = { "/ordered": new Set<string>(), "/loose": new Set<string>() };
      const overtaken: string[] = [];
      const ids: string[] = [];
      const orderOf = ({ body }: Received): string => String(body.event["jobId"]);
      receiver.answer = async (received) => {
        const own = accepted[received.path as "/ordered" | "/loose"];
        const before = ids[ids.indexOf(orderOf(received)) - 1];
        if (received.path === "/ordered" && before !== undefined && !own.has(before)) overtaken.push(before);
        // Some are accepted; of the rest each has reached its receiver, and nobody will learn what it says.
        if (isHolding && own.size % events >= 5) {
          held.add(received.path);
          return hold.promise;
        }
        own.add(orderOf(received));
        return 200;
      };
      const enqueueSome = async (): Promise<void> => {
        for (let number = 0; number < events; number++) ids.push((await mill.enqueue(order, enqueued++)).id);
      };
      await enqueueSome();
      delivering = start();
      for (let kill = 0; kill < kills; kill++) {
        await until("both hooks are in the middle", () => held.size === 2);
        await delivering.kill();
        held.clear();
        isHolding = kill + 1 < kills;
        hold.resolve(500);
        hold = Promise.withResolvers<number>();
        await enqueueSome();
        delivering = start();
        await delivering.spoke;
        await enqueueSome();
      }
      const isDone = (): boolean => Object.values(accepted).every((own) => own.size === ids.length);
      await until("every event was accepted by both", isDone);
      expect(overtaken).toEqual([]);
      for (const path of ["/ordered", "/loose"]) {
        const came = receiver.all.filter((received) => received.path === path);
        // One delivery per event, however often it came, and in the order of the events where that was asked for.
        const deliveries = new Map(came.map((received) => [received.id, orderOf(received)]));
        const delivered = [...deliveries.values()];
        expect(path === "/ordered" ? delivered : delivered.toSorted()).toEqual(
          path === "/ordered" ? ids : ids.toSorted(),
        );
        expect(came.length).toBeGreaterThan(ids.length);
      }
    } finally {
      await delivering?.kill();
      await mill.close();
    }
  });
});
