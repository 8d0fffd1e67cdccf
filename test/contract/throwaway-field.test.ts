/**
 * A field of a job is one line of store/job-fields.ts. Here the table gets three more lines, and nothing else is
 * edited: a rare field of the spec, a rare field of the state, and a common field of the spec. Every store keeps all of
 * them through submit, claim, settle, history and replay, and returns them to a duty whose list of fields names them.
 */
import { describe, expect, test, vi } from "vitest";
import type { Platform } from "../../src/platform/platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { aChange, aClaim, aJob, aSettle, finish, handBack, replay } from "../support/builders.ts";
import { createHeldPlatform } from "../support/virtual/held-platform.ts";
import { postgresSources, SchemaPool } from "../support/servers/postgres-shared.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { useOwnRedis } from "../support/servers/use-redis.ts";

vi.mock("../../src/store/job-fields.ts", async (importOriginal) => {
  const original = await importOriginal<{ jobFields: object; dueFields: string[] }>();
  const line = { type: "text", isNullable: true, initial: null, isRare: true };
  Object.assign(original.jobFields, {
    shape: { ...line, home: "spec" },
    colour: { ...line, home: "state" },
    label: { ...line, isRare: undefined, home: "spec" },
  });
  original.dueFields.push("shape", "colour", "label");
  return original;
});

// A server of its own: the library follows from the table, and on a shared one it would take the place of the others'.
const redis = useOwnRedis();
const [source] = postgresSources();
const schemas = new SchemaPool(useTestDatabase(source!));

const stores: readonly (readonly [string, (platform: Platform) => Promise<Store>])[] = [
  ["SQLite", (platform) => openSqliteStore({ path: ":memory:", platform })],
  [
    "Postgres",
    (platform) => schemas.open((place) => openPostgresStore({ ...place, platform, clock: "platform" })),
  ],
  ["Redis", (platform) => redis.open({ platform, clock: "platform" })],
];

const plain = { shape: null, colour: null, label: null };
const painted = { shape: "round \x1f'\"", colour: "blue", label: "L" };

describe.each(stores)("%s", (_, open) => {
  test.each([
    ["given by the submit", painted],
    ["left out", {}],
  ])(
    "keeps a field that is only a line of the table, %s, through a job's whole life",
    async (_title, given) => {
      const held = createHeldPlatform();
      const store = await open(held);
      const expected = { ...plain, ...given };
      const read = async (): Promise<unknown> => (await store.readJobs(["a"]))[0];
      try {
        await store.submit([{ jobs: [{ ...aJob({ id: "a" }), ...given }, aJob({ id: "b" })] }]);
        expect(await read()).toMatchObject({ state: "ready", ...expected });
        const [first] = (await store.claim(aClaim({ max: 1 }))).jobs;
        expect(await read()).toMatchObject({ state: "running", ...expected });
        await store.settleIfLeased([aSettle(first!, handBack)]);
        expect(await read()).toMatchObject({ state: "ready", ...expected });
        const [second] = (await store.claim(aClaim({ max: 1 }))).jobs;
        await store.settleIfLeased([aSettle(second!, finish())]);
        expect(await read()).toMatchObject({ state: "completed", ...expected });
        await store.changeIf([aChange("a", ["completed"], replay())]);
        expect(await read()).toMatchObject({ state: "ready", ...expected });
        const [third] = (await store.claim(aClaim({ max: 1 }))).jobs;
        held.advance(aClaim().leaseMs);
        const { jobs: due } = await store.readDue({ clock: "lease", max: 1, cursor: null });
        expect(due).toMatchObject([{ id: "a", ...expected }]);
        await store.settleIfLeased([aSettle(third!, finish("failed"))]);
        expect(await read()).toMatchObject({ id: "a", state: "failed", ...expected });
        expect((await store.readJobs(["b"]))[0]).toMatchObject({ state: "ready", ...plain });
      } finally {
        await store.close();
      }
    },
  );

  test("keeps a common field of each job apart from its neighbours", async () => {
    const store = await open(createHeldPlatform());
    const labels = [null, "x", "y", "y", "y", null, null, "x"];
    // As jobs of one plan share it: they differ in their labels alone.
    const due = { inMs: 0 };
    const jobs = Array.from({ length: 40 }, (_, at) => ({
      ...aJob({ id: `n${at}`, due }),
      label: labels[Math.floor(at / 3) % labels.length],
    }));
    try {
      await store.submit([{ jobs: jobs.slice(0, 30) }, { jobs: jobs.slice(30) }]);
      const read = await store.readJobs(jobs.map(({ id }) => id));
      expect(read).toMatchObject(jobs.map(({ id, label }) => ({ id, label })));
      const ids = jobs.map(({ id }) => id);
      const { jobs: claimed } = await store.claim(aClaim({ max: jobs.length }));
      expect(claimed.map(({ id }) => id)).toEqual(ids);
      await store.settleIfLeased(claimed.map((lease) => aSettle(lease, finish())));
      const ended = await store.readJobs(ids);
      expect(ended).toMatchObject(jobs.map(({ id, label }) => ({ id, label, state: "completed" })));
    } finally {
      await store.close();
    }
  });
});
