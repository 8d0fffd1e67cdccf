import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { aChange, aClaim, aJob, aRoute, aSettle, finish, remove } from "../../../../test/support/builders.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { expectEndWithout } from "../../../../test/support/lost-members.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { recount, sortStateCounts, findAll } from "../../../../test/support/walk.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import type { Store } from "../../../store/store.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();
const platform = createHeldPlatform();
let store: Store;
let schemas = 0;

beforeEach(async () => {
  const schema = `unreadable_${++schemas}`;
  store = await openPostgresStore({ url: database.url, platform, schema, clock: "platform", poolMax: 2 });
});
afterEach(() => store.close());

const damage = (text: string) => database.query(text.replaceAll("@", `unreadable_${schemas}.`));
const unreadables = async () =>
  (await store.readUnreadable({ after: null, max: 10 })).records.map(({ ref, id, why }) => ({
    ref,
    id,
    why,
  }));
const large = `"${"x".repeat(3000)}"`;
const ids = (jobs: readonly { readonly id: string }[]) => jobs.map(({ id }) => id).sort();

/** What is counted is what is there, and an audit finds nothing more to do. */
async function expectSound(): Promise<void> {
  expect(sortStateCounts(await store.countJobs())).toEqual(recount(await findAll(store)));
  expect(await audit()).toEqual({});
}

/** With a `max` of 1 the look for records that cannot be read takes several pages. */
async function audit(max = 100): Promise<Record<string, number>> {
  const repaired: Record<string, number> = {};
  for (let cursor: string | null = null, isFirst = true; isFirst || cursor !== null; isFirst = false) {
    const answer = await store.auditIndexes({ cursor, max });
    for (const [kind, count] of Object.entries(answer.repaired))
      repaired[kind] = (repaired[kind] ?? 0) + count;
    cursor = answer.cursor;
  }
  return repaired;
}

/** Three jobs of each kind; the middle one is then damaged. */
const kinds = ["ready", "scheduled", "running", "completed"] as const;
async function fill(): Promise<void> {
  const tags = ["t"];
  for (const kind of kinds)
    for (const at of [1, 2, 3])
      await store.submit([
        {
          jobs: [
            aJob({
              id: `${kind}${at}`,
              name: kind,
              tags,
              input: large,
              due: { inMs: kind === "scheduled" ? 100 : 0 },
            }),
          ],
        },
      ]);
  const claim = async (name: string) =>
    (await store.claim(aClaim({ offers: [{ routes: [aRoute({ name })], max: 3 }] }))).jobs;
  await claim("running");
  await store.settleIfLeased((await claim("completed")).map((job) => aSettle(job, finish())));
}
const tables = { ready: "waiting", scheduled: "waiting", running: "leased", completed: "history" } as const;

const damages = {
  "an unknown state": (table: string, id: string) => `UPDATE @${table} SET state = 77 WHERE id = '${id}'`,
  "tags that are no JSON": (table: string, id: string) =>
    `UPDATE @${table} SET tags = '[broken' WHERE id = '${id}'`,
  "no input": (table: string, id: string) =>
    `DELETE FROM @payload WHERE seq = (SELECT seq FROM @${table} WHERE id = '${id}')`,
  "a number out of range": (table: string, id: string) =>
    `UPDATE @${table} SET rev = 2147483647 WHERE id = '${id}'`,
};

describe.each(Object.entries(damages))("a record with %s", (_, damaging) => {
  beforeEach(async () => {
    await fill();
    for (const kind of kinds) await damage(damaging(tables[kind], `${kind}2`));
  });

  test("is met by nobody who cannot go on with its neighbours", async () => {
    platform.advance(500);
    expect(await store.promoteDue({ max: 10 })).toMatchObject({ more: false });
    for (const kind of ["ready", "scheduled"]) {
      const { jobs } = await store.claim(aClaim({ offers: [{ routes: [aRoute({ name: kind })], max: 10 }] }));
      expect(ids(jobs)).toEqual(expect.arrayContaining([`${kind}1`, `${kind}3`]));
      for (const job of jobs) expect(job.input).toBe(large);
    }
    platform.advance(5000);
    const { jobs } = await store.readDue({ clock: "lease", max: 20, cursor: null });
    expect(ids(jobs)).toEqual(
      expect.arrayContaining(["ready1", "ready3", "running1", "running3", "scheduled1", "scheduled3"]),
    );
    expect(ids(await findAll(store))).toEqual(
      expect.arrayContaining(["completed1", "completed3", "ready1", "running3"]),
    );
    expect(
      (await store.readJobs(["completed1", "running2", "running1"])).map((job) => job?.id ?? null),
    ).toEqual(expect.arrayContaining(["completed1", "running1"]));
    expect(await store.countJobs()).not.toHaveLength(0);
    const history = {
      what: "history",
      outcome: "completed",
      queue: null,
      exceptQueues: [],
      olderThanMs: 0,
    } as const;
    await store.prune({ ...history, max: 10, cursor: null });
    expect((await store.readJobs(["completed1", "completed3"])).every((job) => job === null)).toBe(true);
    await audit();
    await expectSound();
  });

  test("is found by the audit, shown, and deleted by an operator", async () => {
    expect((await audit(1))["unreadable"]).toBe(4);
    await expectSound();
    const { records } = await store.readUnreadable({ after: null, max: 10 });
    expect(ids(records as readonly { id: string }[])).toEqual([
      "completed2",
      "ready2",
      "running2",
      "scheduled2",
    ]);
    for (const { text, why, at } of records) {
      expect(JSON.parse(text.length < 4000 ? text : "{}")).toBeTypeOf("object");
      expect([why.length > 0, at]).toEqual([true, platform.now()]);
    }
    const first = await store.readUnreadable({ after: null, max: 3 });
    const rest = await store.readUnreadable({ after: first.cursor, max: 3 });
    expect([...first.records, ...rest.records]).toEqual(records);
    expect(rest.cursor).toBeNull();
    const refs = records.map(({ ref }) => ref);
    expect([await store.deleteUnreadable(refs), await store.deleteUnreadable(refs)]).toEqual([4, 0]);
    expect(await unreadables()).toEqual([]);
    // Its id is free again.
    expect(await store.submit([{ jobs: [aJob({ id: "ready2", digest: "d" })] }])).toMatchObject([
      { hows: ["created"] },
    ]);
  });

  test("is gone for a change, which keeps it as unreadable, and its neighbours are changed", async () => {
    const changes = ["ready1", "ready2", "ready3"].map((id) => aChange(id, ["ready"], remove));
    const answers = await store.changeIf(changes);
    expect([answers[0]?.kind, answers[2]?.kind]).toEqual(["ok", "ok"]);
    expect(await store.readJobs(["ready2"])).toEqual([null]);
    await audit();
    await expectSound();
  });
});

describe("a bad record", () => {
  test.each(["lane_gates = '[broken'", "state = 77"])(
    "leaves its lane and its permits to those behind it: %s",
    async (wrong) => {
      const lane = { laneKey: "k", laneGates: ["1:1:g:mail\tk"] };
      const claimIds = async () =>
        ids((await store.claim(aClaim({ offers: [{ routes: [aRoute(lane)], max: 5 }] }))).jobs);
      await store.submit([{ jobs: ["a", "b", "c"].map((id) => aJob({ id, ...lane })) }]);
      expect(await claimIds()).toEqual(["a"]);
      await damage(`UPDATE @leased SET ${wrong}`);
      await damage(`UPDATE @waiting SET ${wrong} WHERE id = 'b'`);
      await audit();
      expect(await claimIds()).toEqual(["c"]);
      await expectSound();
    },
  );

  test("whose gates cannot be read is kept as unreadable by the claim that meets it", async () => {
    const lane = (key: string) => ({ laneKey: key, laneGates: [`1:1:g:mail\t${key}`] });
    await store.submit([{ jobs: ["a", "b"].map((id) => aJob({ id, ...lane(id) })) }]);
    await damage("UPDATE @waiting SET lane_gates = '[broken' WHERE id = 'a'");
    const { jobs } = await store.claim(aClaim({ offers: [{ routes: [aRoute(lane("a"))], max: 5 }] }));
    expect(ids(jobs)).toEqual(["b"]);
    expect((await unreadables()).map(({ id }) => id)).toEqual(["a"]);
    await expectSound();
  });

  test("leaves its unique key to others", async () => {
    const unique = { key: "k", hold: "end", onHeld: "keep" } as const;
    await store.submit([{ jobs: [aJob({ id: "a", unique })] }]);
    await damage("UPDATE @waiting SET state = 44");
    expect(await store.changeIf([aChange("a", ["ready"], remove)])).toEqual([{ kind: "gone" }]);
    expect(await store.submit([{ jobs: [aJob({ id: "b", unique })] }])).toMatchObject([
      { hows: ["created"] },
    ]);
    expect(await unreadables()).toEqual([{ ref: "waiting:1", id: "a", why: "state 44 in waiting" }]);
    await expectSound();
  });

  test("in the lease of a worker that settles it is gone, and the settles beside it are done", async () => {
    await store.submit([{ jobs: ["a", "b"].map((id) => aJob({ id })) }]);
    const { jobs } = await store.claim(aClaim());
    await damage("UPDATE @leased SET state = 2 WHERE id = 'a'");
    const settles = jobs.map((job) =>
      aSettle(job, finish(), { effects: { jobs: [aJob({ id: `${job.id}2` })] } }),
    );
    expect(await store.settleIfLeased(settles)).toEqual([{ kind: "gone" }, { kind: "ok" }]);
    expect((await unreadables()).map(({ id }) => id)).toEqual(["a"]);
    await expectSound();
  });

  test("without a lease among the leased is kept as unreadable, because no clock would ever ring for it", async () => {
    await store.submit([{ jobs: ["a", "b"].map((id) => aJob({ id })) }]);
    await store.claim(aClaim());
    await damage("UPDATE @leased SET lease_ends_at = NULL, timer_at = NULL WHERE id = 'a'");
    expect(await audit()).toEqual({ unreadable: 1 });
    expect(await unreadables()).toEqual([{ ref: "leased:1", id: "a", why: "no leaseEndsAt" }]);
    await expectSound();
  });

  test("is found by the audit where a route's gates are lost", async () => {
    await store.submit([{ jobs: [aJob({ id: "a", gates: [{ key: "l:slack", weight: 2 }] })] }]);
    await damage("DELETE FROM @gate_use");
    expect(await audit()).toEqual({ "gate-use": 2 });
    expect(await audit()).toEqual({});
  });

  test("of the routes is kept as unreadable, its jobs are shown, and the next submit of its name writes it again", async () => {
    await store.submit([{ jobs: [aJob({ id: "a" })] }]);
    await damage("UPDATE @route SET requires = '[broken'");
    expect(await store.readRoutes()).toEqual([]);
    expect(await unreadables()).toMatchObject([{ id: null }]);
    expect(await store.readJobs(["a"])).toMatchObject([{ id: "a", queue: "?" }]);
    expect(await store.countJobs()).toMatchObject([{ state: "ready", count: 1 }]);
    await store.submit([{ jobs: [aJob({ id: "b" })] }]);
    expect((await store.readRoutes()).map(({ name }) => name)).toEqual(["send"]);
  });
});

test("a record of a member of a flow that cannot be read lets the flow come to its end", async () => {
  const schema = "unreadable_flow";
  const own = await openPostgresStore({ url: database.url, platform: nodePlatform, schema, poolMax: 4 });
  await expectEndWithout(own, async (id) => {
    for (const table of ["waiting", "leased", "history"])
      await database.query(`UPDATE ${schema}.${table} SET state = 77 WHERE id = '${id}'`);
  });
});
