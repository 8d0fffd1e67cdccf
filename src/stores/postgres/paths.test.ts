/**
 * Every path of an operation leaves the same rows: the same calls take one path in one schema and the other in another
 * one, and all tables are compared.
 */
import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { aClaim, aJob, aRoute, aSettle, finish, handBack, schedule } from "../../../test/support/builders.ts";
import {
  aFlow,
  aMember,
  always,
  edgeTo,
  onFailure,
  onSuccess,
  tolerated,
} from "../../../test/contract/cases/flow-jobs.ts";
import { createHeldPlatform } from "../../../test/support/virtual/held-platform.ts";
import { useTestDatabase } from "../../../test/support/servers/use-postgres.ts";
import { sortEvents } from "../../../test/support/walk.ts";
import { terminalStates } from "../../model/job/job-state.ts";
import { laneOrderOf } from "../../model/routing/lane.ts";
import { routeOf } from "../../model/routing/route.ts";
import type { ClaimOffer, Settle } from "../../store/operations.ts";
import { readEvents } from "../../store/packing/packed-events.ts";
import { isPlainSettle } from "../../store/path-predicates.ts";
import type { DocPut, DocWrite, NewJob } from "../../store/records.ts";
import type { Calls } from "./functions/call.ts";
import { claim } from "./runs/claim.ts";
import { openDatabase } from "./connection/database.ts";
import type { Database } from "./connection/database.ts";
import { putDocs } from "./documents/documents.ts";
import { loadDriver } from "./connection/driver.ts";
import { noFloors, planWhole } from "./runs/floors.ts";
import type { Floors, Looks } from "./runs/floors.ts";
import { migrate, quoted } from "./connection/migrate.ts";
import { settleBy } from "./runs/settle.ts";
import { submitOne } from "./jobs/submit-one.ts";
import { submitBy } from "./jobs/submit.ts";

const testDatabase = useTestDatabase();
const platform = createHeldPlatform();
const runs = 25;
let database: Database;

beforeAll(async () => {
  const driver = await loadDriver();
  const options = { driver, url: testDatabase.url, poolMax: 1, name: "millrace", callTimeoutMs: 30_000 };
  database = openDatabase({ ...options, platform });
  for (const schema of ["one", "other"]) await migrate(database, schema, 1000);
});
afterAll(() => database.close());

const callsOf = (schema: string): Calls => ({
  schema: quoted(schema),
  commit: "off",
  isInside: false,
  now: () => platform.now(),
  write: (text, values) => database.write(text, values),
  read: (text, values) => database.read(text, values),
  emit: () => undefined,
  ride: () => null,
});
const one = callsOf("one");
const other = callsOf("other");

const tables = [
  "waiting",
  "leased",
  "history",
  "payload",
  "uniq",
  "tag",
  "state_count",
  "feed",
  "route",
  "gate_use",
  "permit",
  "lane",
  "lane_turn",
  "lane_change",
  "lane_scope",
  "doc",
  "doc_floor",
];

async function empty(): Promise<void> {
  const texts = ["one", "other"].flatMap((schema) => [
    ...tables.map((table) => `DELETE FROM ${schema}.${table}`),
    `SELECT setval('${schema}.job_seq', 1, false), setval('${schema}.feed_id', 1, false)`,
  ]);
  await testDatabase.query(texts.join(";"));
}
beforeEach(empty);

/** All that the store holds. Counts are summed up, and events of a record may stand in any order. */
async function rowsOf(schema: string): Promise<object> {
  const read = (text: string): Promise<Record<string, unknown>[]> => testDatabase.query(text);
  const ordered = ["waiting", "leased", "history", "payload"].map((name) => [name, "seq"] as const);
  const others = [
    ["uniq", "key"],
    ["tag", "tag, seq"],
    ["route", "number"],
    ["gate_use", "route, key"],
    ["permit", "seq, key"],
    ["lane", "key"],
    ["lane_turn", "queue"],
    ["doc", "kind, id"],
  ] as const;
  const found: Record<string, unknown> = {};
  for (const [table, by] of [...ordered, ...others])
    found[table] = await read(`SELECT * FROM ${schema}.${table} ORDER BY ${by}`);
  const sums = `SELECT route, state, sum(count) AS count FROM ${schema}.state_count GROUP BY 1, 2 HAVING sum(count) <> 0 ORDER BY 1, 2`;
  const feed = await read(`SELECT id, at, body FROM ${schema}.feed ORDER BY id`);
  const records = feed.map(({ id, at, body }) =>
    sortEvents({ number: Number(id), at: Number(at), events: readEvents(body as string) }),
  );
  // How many rows say what has changed is nobody's business.
  const laneChanges = `SELECT DISTINCT unnest(lanes) AS lane, NULL AS gate, scope FROM ${schema}.lane_change
    UNION SELECT NULL, unnest(gates), scope FROM ${schema}.lane_change ORDER BY 1, 2`;
  return { ...found, laneChanges: await read(laneChanges), stateCounts: await read(sums), records };
}

const expectSameRows = async (): Promise<void> => {
  expect(await rowsOf("other")).toEqual(await rowsOf("one"));
};

const due = fc.oneof(
  fc.constant({ inMs: 0 }),
  fc.record({ inMs: fc.nat(50) }),
  fc.record({ at: fc.integer({ min: platform.now() - 50, max: platform.now() + 50 }) }),
);
const someText = fc.oneof(fc.constant(null), fc.constantFrom("", "x", 'hard \x1e\x1f\x02\0 "\\'));
const shape = fc.record({
  queue: fc.constantFrom("mail", "reports"),
  name: fc.constantFrom("send", "print"),
  gates: fc.constantFrom([], [{ key: "l:slack", weight: 1 }], [{ key: "l:slack", weight: 2 }]),
  input: fc.oneof(
    fc.constantFrom("1", "é".repeat(600), "é".repeat(512), "x".repeat(1024), "x".repeat(1025)),
    fc.string(),
  ),
  policy: someText,
  meta: someText,
  tags: fc.oneof(fc.constant(null), fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 3 })),
  due,
  rankBase: fc.integer({ min: -5, max: 5 }),
  rankSlope: fc.constantFrom(0, 1),
  deadline: fc.oneof(fc.constant(null), due),
  ttlMs: fc.oneof(fc.constant(null), fc.nat(50)),
  lane: fc.constantFrom<Partial<NewJob>>(
    {},
    {},
    { laneKey: "fifo", laneGates: ["1:9:g:mail\tk", "2::l:slack\tk"] },
    { laneKey: "fair", laneStep: 7 },
  ),
});
interface Shape extends Partial<NewJob> {
  readonly lane?: Partial<NewJob>;
}
const someJobs = fc.array(shape, { minLength: 1, maxLength: 6 });
const jobsOf = (shapes: readonly Shape[]): NewJob[] =>
  shapes.map(({ lane = {}, ...each }, at) => aJob({ id: `j${at}`, ...each, ...lane }));
/** An offer has routes of one order of lanes. */
const offersOf = (jobs: readonly NewJob[]): ClaimOffer[] =>
  [...Map.groupBy(jobs, laneOrderOf).values()].map((alike) => ({
    ...{ routes: alike.map((job) => routeOf(job).number), max: 10, starts: 3 },
  }));

/** Members in the order of their names: each may lead to any behind it, and to their flow. */
const someMembers = fc.array(
  fc.record({
    to: fc.array(fc.tuple(fc.nat(9), fc.constantFrom(onSuccess, onFailure, always, tolerated)), {
      maxLength: 4,
    }),
    need: fc.nat(2),
    slack: fc.nat(1),
    defers: fc.constantFrom(undefined, 1 as const),
    failsFast: fc.constantFrom(undefined, true as const),
    given: shape.map(({ lane, queue: _queue, name: _name, deadline: _deadline, ...rest }) => ({
      ...{ ...rest, ...lane },
      due: "inMs" in rest.due ? rest.due : { inMs: 0 },
    })),
  }),
  { minLength: 2, maxLength: 8 },
);
type Members = Parameters<Parameters<typeof someMembers.map>[0]>[0];

function flowOf(members: Members): NewJob[] {
  const nodes = members.map(({ to, need, slack, defers, failsFast, given }, at) => {
    const behind = to.filter(([target]) => target > at && target < members.length);
    return aMember(`m${at}`, {
      ...given,
      ...{
        need: at === 0 ? 0 : need,
        slack,
        to: behind.map(([target, masks]) => edgeTo(`m${target}`, masks)),
      },
      ...(defers === undefined ? {} : { defers }),
      ...(failsFast === undefined ? {} : { failsFast }),
    });
  });
  return [aFlow(nodes.length, { need: nodes.length - 1 }), ...nodes];
}

describe("a flow by either path leaves the same rows", () => {
  test("at its submit and at the ends of its members, in sets or one by one", async () => {
    const ending = fc.tuple(fc.constantFrom(...terminalStates), fc.constantFrom(null, 0, 30));
    const endings = fc.array(ending, { minLength: 20, maxLength: 20 });
    const property = fc.asyncProperty(someMembers, endings, async (members, ends) => {
      await empty();
      const jobs = flowOf(members);
      const plain = aJob({ id: "plain", due: { inMs: 0 } });
      const units = [{ jobs }, { jobs: [plain] }];
      const offers = offersOf([...jobs, plain]);
      const paths = [
        { calls: one, isForced: false },
        { calls: other, isForced: true },
      ];
      for (const { calls, isForced } of paths)
        await submitBy(
          calls,
          units,
          units.map(() => !isForced),
        );
      await expectSameRows();
      for (let round = 0, isOver = false; !isOver; round++) {
        for (const { calls, isForced } of paths) {
          const { jobs: claimed } = await claim(calls, noFloors, aClaim({ offers }));
          isOver = claimed.length === 0;
          const settles = claimed.map((job, at): Settle => {
            const [to, keepMs] = ends[(round * 7 + at) % ends.length]!;
            return aSettle(job, finish(to, { keepMs }));
          });
          await settleBy(
            calls,
            settles,
            settles.map(() => !isForced),
          );
        }
        await expectSameRows();
      }
    });
    await fc.assert(property, { numRuns: runs });
  });
});

describe("the same job by either path leaves the same rows", () => {
  test("what a claim has seen of an offer with lanes is answered for that offer alone", async () => {
    const laned = aJob({ id: "a", laneKey: "r:mail\tk" });
    await submitBy(one, [{ jobs: [laned] }], [false]);
    const seen: Looks["lowest"][] = [];
    const floors: Floors = { plan: planWhole, learn: (_offers, _plan, { lowest }) => void seen.push(lowest) };
    const offers = [aRoute(), aRoute({ laneKey: "any" })].map((route) => ({ routes: [route], max: 5 }));
    const { jobs } = await claim(one, floors, aClaim({ offers }));
    expect(jobs).toHaveLength(1);
    expect(seen).toEqual([[null, jobs[0]?.dueAt]]);
  });

  test("at its submit, in sets or one by one", async () => {
    const property = fc.asyncProperty(someJobs, async (shapes) => {
      await empty();
      const units = jobsOf(shapes).map((job) => ({ jobs: [job] }));
      const answers = await submitBy(
        one,
        units,
        units.map(() => true),
      );
      expect(
        await submitBy(
          other,
          units,
          units.map(() => false),
        ),
      ).toEqual(answers);
      await expectSameRows();
    });
    await fc.assert(property, { numRuns: runs });
  });

  test("at its submit with a digest and a document under its version, as a set or one by one", async () => {
    const many = fc.array(shape, { minLength: 4, maxLength: 8 });
    const property = fc.asyncProperty(many, async (shapes) => {
      await empty();
      const plain = shapes.map((given) => ({ ...given, lane: {}, input: given.input.slice(0, 300) }));
      const jobs = jobsOf(plain).map((job): NewJob => ({ ...job, digest: "d" }));
      const doc = (at: number) => ({ kind: "k", id: `d${at}`, body: "", due: { inMs: at } });
      const puts = jobs.map((_, at): DocPut => ({ ...doc(at), guard: "any" }));
      for (const calls of [one, other]) await putDocs(calls, puts);
      const docs = jobs.map((_, at): DocWrite => ({ ...doc(at), body: `b${at}`, guard: { version: 1 } }));
      const firings = jobs.map((job, at) => ({ jobs: [job], docs: [docs[at] as DocWrite] }));
      const [answer] = await submitBy(one, [{ jobs, docs }], [false]);
      expect(answer).toMatchObject({ kind: "ok", ids: jobs.map(({ id }) => id) });
      const alone = firings.map(() => false);
      expect((await submitBy(other, firings, alone)).every(({ kind }) => kind === "ok")).toBe(true);
      await expectSameRows();
      // A second time every job is known and every document has another version: nothing is written.
      const before = await rowsOf("one");
      expect(await submitBy(one, [{ jobs, docs }], [false])).toEqual([
        { kind: "refused", reason: "doc-changed", id: "d0" },
      ]);
      expect(await rowsOf("one")).toEqual(before);
      // One that is known leaves the others to be submitted job by job.
      const next = aJob({ id: "next", digest: "d" });
      const again = docs.map((each): DocPut => ({ ...each, guard: { version: 2 } }));
      expect(await submitBy(one, [{ jobs: [...jobs, next], docs: again }], [false])).toMatchObject([
        { kind: "ok", hows: [...jobs.map(() => "existing"), "created"] },
      ]);
    });
    await fc.assert(property, { numRuns: runs });
  });

  test("at its submit alone, by the path of one job or in sets", async () => {
    const property = fc.asyncProperty(shape, async (given) => {
      await empty();
      const plain = { ...given, lane: {}, tags: null, input: given.input.slice(0, 300) };
      const [job] = jobsOf([plain]);
      const answer = await submitOne(one, job!);
      expect(await submitBy(other, [{ jobs: [job!] }], [true])).toEqual([answer]);
      await expectSameRows();
    });
    await fc.assert(property, { numRuns: runs });
  });

  test("at its claim, of its route alone or among several", async () => {
    const property = fc.asyncProperty(someJobs, fc.integer({ min: 1, max: 6 }), async (shapes, max) => {
      await empty();
      const keyed = shapes.map(({ queue: _queue, name: _name, gates: _gates, lane: _lane, ...rest }, at) => {
        const hold = (["started", "end", 40] as const)[at % 3] as "started";
        return { ...rest, unique: at % 2 ? null : { key: `k${at}`, hold, onHeld: "keep" as const } };
      });
      const units = jobsOf(keyed).map((job) => ({ jobs: [job] }));
      for (const calls of [one, other])
        await submitBy(
          calls,
          units,
          units.map(() => false),
        );
      const offers = (routes: number[]) => aClaim({ offers: [{ routes, max, starts: 1 }] });
      const answer = await claim(one, noFloors, offers([aRoute()]));
      const among = [aRoute({ name: "nobody" }), aRoute()];
      expect((await claim(other, noFloors, offers(among))).jobs).toEqual(answer.jobs);
      await expectSameRows();
    });
    await fc.assert(property, { numRuns: runs });
  });

  test("at its end, in sets or one by one", async () => {
    const ending = fc.record({
      to: fc.constantFrom(...terminalStates),
      keepMs: fc.constantFrom(null, 0, 30),
      reason: someText,
      result: someText,
      attempts: someText,
      fenceShift: fc.constantFrom(0, 0, 0, 1),
      isBack: fc.constantFrom(false, false, true),
    });
    const property = fc.asyncProperty(
      someJobs,
      fc.array(ending, { minLength: 8, maxLength: 8 }),
      async (shapes, endings) => {
        await empty();
        const units = jobsOf(
          shapes.map((each) => ({ ...each, due: { inMs: 0 }, deadline: null, ttlMs: null })),
        ).map((job) => ({
          jobs: [job],
        }));
        const offers = offersOf(units.flatMap(({ jobs }) => jobs));
        const settled = [];
        for (const [calls, isForced] of [
          [one, false],
          [other, true],
        ] as const) {
          await submitBy(
            calls,
            units,
            units.map(() => true),
          );
          const { jobs } = await claim(calls, noFloors, aClaim({ offers }));
          // The first is settled twice in one call.
          const settles = [...jobs, jobs[0]!].map((job, at): Settle => {
            const { to, attempts, fenceShift, isBack, ...rest } = endings[at]!;
            const lease = { ...job, fence: job.fence + fenceShift };
            const next = isBack ? (at % 2 ? handBack : schedule(5)) : finish(to, rest);
            return aSettle(lease, next, { attempts });
          });
          settled.push(
            await settleBy(
              calls,
              settles,
              settles.map((each) => !isForced && isPlainSettle(each)),
            ),
          );
        }
        expect(settled[1]).toEqual(settled[0]);
        await expectSameRows();
      },
    );
    await fc.assert(property, { numRuns: runs });
  });
});
