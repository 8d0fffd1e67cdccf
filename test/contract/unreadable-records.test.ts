/**
 * A record that its store cannot read, for the people who operate it: on every store they see it in the quarantine
 * list, the log names it once, and they can take it out, by its id or by its ref.
 */
import { DatabaseSync } from "node:sqlite";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { Logger } from "../../src/engine/log/logger.ts";
import { silentLogger } from "../../src/engine/log/logger.ts";
import { handler, job } from "../../src/index.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { hangMs } from "../support/hang-ms.ts";
import { millOn } from "../support/mill-on.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-unreadable-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const database = useTestDatabase();
const redis = useSharedRedis();
const platform = nodePlatform;
let places = 0;

interface Subject {
  readonly store: Store;
  /** Makes the records of these jobs ones that cannot be read. */
  readonly damage: (ids: readonly string[]) => Promise<void>;
}

async function onRedis(partitions: number): Promise<Subject> {
  const prefix = redis.prefixes.next();
  const store = await openRedisStore({ url: redis.prefixes.url, prefix, partitions, platform });
  return {
    store,
    async damage(ids) {
      for (let number = 0; number < partitions; number++) {
        const tag = `{${prefix}:${number}}`;
        for (const id of ids) {
          const handle = await redis.prefixes.client.hget(`${tag}:ids`, id);
          if (handle !== null) await redis.prefixes.client.hset(`${tag}:spec`, handle, "garbage");
        }
      }
    },
  };
}

const subjects: Readonly<Record<string, () => Promise<Subject>>> = {
  async sqlite() {
    const path = join(folder, `${++places}.db`);
    return {
      store: await openSqliteStore({ path, platform }),
      async damage(ids) {
        const file = new DatabaseSync(path);
        for (const id of ids) file.prepare("UPDATE millrace_spec SET tags = '{{' WHERE id = ?").run(id);
        file.close();
      },
    };
  },
  async Postgres() {
    const schema = `unreadable_${++places}`;
    return {
      store: await openPostgresStore({ url: database.url, schema, platform }),
      async damage(ids) {
        await database.query(`UPDATE ${schema}.waiting SET tags = '{{' WHERE id = ANY ($1)`, [ids]);
      },
    };
  },
  Redis: () => onRedis(1),
  "Redis in four partitions": () => onRedis(4),
};

describe.each(Object.entries(subjects))("%s", (_title, open) => {
  test("a record that cannot be read is listed, named once in the log, and deleted", async () => {
    const { store, damage } = await open();
    const named: unknown[] = [];
    const log: Logger = {
      ...silentLogger,
      error: (message, fields) => void (message.includes("is unreadable") && named.push(fields?.["id"])),
    };
    const mill = millOn(store, { log });
    try {
      const plain = job<number>("plain");
      const handles = await mill.enqueueMany([1, 2, 3].map((n) => plain.with(n, { delay: "1h" })));
      const [first, second, sound] = handles.map(({ id }) => id) as [string, string, string];
      await damage([first, second]);
      const walk = async (): Promise<void> => {
        while ((await mill.duties.run("index-audit")).hasMore);
      };
      await walk();
      await walk();
      expect([named.length, new Set(named)]).toEqual([2, new Set([first, second])]);
      const quarantined = await mill.unreadable.list();
      expect(new Set(quarantined.map(({ item }) => item))).toEqual(new Set([first, second]));
      for (const each of quarantined)
        expect(each).toEqual({
          item: expect.any(String),
          ref: expect.any(String),
          error: expect.any(String),
          at: expect.any(Date),
        });
      expect(await mill.jobs.delete(first)).toBe("deleted");
      expect(await mill.jobs.delete(first)).toBe("not-found");
      const [left] = await mill.unreadable.list();
      expect(left).toMatchObject({ item: second });
      const { ref } = left as { ref: string };
      expect(await mill.unreadable.delete(["no ref", "7:none", ref])).toBe(1);
      expect(await mill.unreadable.list()).toEqual([]);
      expect((await mill.jobs.get(sound))?.state).toBe("scheduled");
    } finally {
      await mill.close();
    }
  });

  test("a record that cannot be read is said when it is met, and counts as an error of a pass", async () => {
    const { store, damage } = await open();
    const met: unknown[] = [];
    const error: Logger["error"] = (message, fields) =>
      void (message.includes("kept apart") && met.push(fields?.["count"]));
    // The audit would find it too, and name it in lines of its own.
    const duties = { "index-audit": false } as const;
    const mill = millOn(store, { log: { ...silentLogger, error }, duties });
    const errors = async (): Promise<number> =>
      (await mill.duties.list()).reduce((sum, duty) => sum + duty.errors, 0);
    try {
      await mill.work([handler(job<number>("other"), () => undefined)]);
      const handles = await mill.enqueueMany(
        [1, 2].map((n) => job<number>("plain").with(n, { delay: "1h" })),
      );
      const [bad, sound] = handles.map(({ id }) => id) as [string, string];
      await damage([bad]);
      expect((await mill.jobs.list({ name: "plain" })).jobs.map(({ id }) => id)).toEqual([sound]);
      await expect.poll(() => met).toEqual([1]);
      // The next pass of any duty counts it: this one promotes a job.
      await mill.enqueue(job<number>("other"), 3, { delay: 50 });
      await expect.poll(errors, { timeout: hangMs }).toBe(1);
    } finally {
      await mill.close();
    }
  });

  test.each(["a list", "nobody"])(
    "is deleted by its id before any audit, met by %s before",
    async (first) => {
      const { store, damage } = await open();
      const mill = millOn(store, { log: silentLogger });
      try {
        const handles = await mill.enqueueMany([1, 2, 3].map((n) => job<number>("plain").with(n)));
        const [bad, ...sound] = handles.map(({ id }) => id) as [string, string, string];
        await damage([bad]);
        const listed = async (): Promise<Set<string>> =>
          new Set((await mill.jobs.list()).jobs.map(({ id }) => id));
        if (first === "a list") expect(await listed()).toEqual(new Set(sound));
        expect(await mill.jobs.delete(bad)).toBe("deleted");
        expect(await mill.unreadable.list()).toEqual([]);
        expect(await listed()).toEqual(new Set(sound));
      } finally {
        await mill.close();
      }
    },
  );
});
