/**
 * Workers with capabilities on real stores, real time and connections of their own: jobs go only to who can run them,
 * and a hint brings a combination that nobody asked for before to the one able worker at once.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { handler, job } from "../../src/index.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { useTestDatabase } from "../support/use-postgres.ts";
import { useSharedRedis } from "../support/use-redis.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-able-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const database = useTestDatabase();
const redis = useSharedRedis();
const platform = nodePlatform;

/** Each call of the inner function opens the same place once more. */
const places: [title: string, place: () => () => Promise<Store>][] = [
  ["sqlite", () => () => openSqliteStore({ path: join(folder, "able.db"), platform })],
  ["Postgres", () => () => openPostgresStore({ url: database.url, schema: "able", platform, poolMax: 4 })],
  [
    "Redis",
    () => {
      const { url } = redis.prefixes;
      const prefix = redis.prefixes.next();
      return () => openRedisStore({ url, prefix, platform });
    },
  ],
  [
    "Redis in four partitions",
    () => {
      const { url } = redis.prefixes;
      const prefix = redis.prefixes.next();
      return () => openRedisStore({ url, prefix, platform, partitions: 4 });
    },
  ],
];

const render = job<number, string>("render");

describe.each(places)("on %s", (_title, place) => {
  const closeLater = closeAfterEach();

  test("a job goes to a worker that offers all that it requires, and to no other", async () => {
    const open = place();
    const mill = async (): Promise<Millrace> => closeLater(millOn(await open()));
    const producer = await mill();
    const serve = async (who: string, capabilities: readonly string[]): Promise<void> => {
      await (await mill()).work([handler(render, async () => who)], { capabilities, concurrency: 2 });
    };
    await serve("plain", []);
    await serve("gpu", ["gpu"]);
    await serve("both", ["eu", "gpu", "ssd"]);
    const run = async (requires: readonly string[]): Promise<string> =>
      (await producer.enqueue(render, 1, { requires })).result({ timeout: "20s" });
    for (let round = 0; round < 5; round++) {
      const [none, gpu, both, three] = await Promise.all(
        [[], ["gpu"], ["eu", "gpu"], ["ssd", "gpu", "eu"]].map((requires) => run(requires)),
      );
      expect(["plain", "gpu", "both"]).toContain(none);
      expect(["gpu", "both"]).toContain(gpu);
      expect([both, three]).toEqual(["both", "both"]);
    }
    const held = await producer.enqueue(render, 1, { requires: ["tpu"] });
    expect(await producer.explain(held.id)).toMatchObject({
      state: "ready",
      held: { by: "capability", missing: ["tpu"] },
    });
    await serve("tpu", ["tpu"]);
    expect(await held.result({ timeout: "20s" })).toBe("tpu");
  });
});
