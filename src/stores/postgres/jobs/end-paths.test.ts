/**
 * Changes that end jobs alike and documents that go at known versions take the set path; the same calls with one
 * thing more in them, which changes nothing, take the general path. Both answer the same and leave the same store.
 */
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { aFlow, aMember } from "../../../../test/contract/cases/flow-jobs.ts";
import { aChange, aJob, finish } from "../../../../test/support/builders.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { findAll, readWholeFeed, sortEvents, sortStateCounts } from "../../../../test/support/walk.ts";
import { arrows } from "../../../model/job/job-state.ts";
import type { Change } from "../../../store/operations.ts";
import { arePlainEnds } from "../../../store/path-predicates.ts";
import type { DocPut, NewJob } from "../../../store/records.ts";
import type { Store } from "../../../store/store.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();
const platform = createHeldPlatform();
/** What goes by sets in the one goes singly in the other; each run of a test has ids of its own. */
let one: Store;
let other: Store;
let runs = 0;

beforeAll(async () => {
  const open = (schema: string): Promise<Store> =>
    openPostgresStore({
      ...{ url: database.url, platform, schema, poolMax: 2 },
      ...{ clock: "platform", listenUrl: null },
    });
  one = await open("ends_one");
  other = await open("ends_other");
});
afterAll(async () => {
  await one.close();
  await other.close();
});

async function shown(store: Store): Promise<object> {
  const feed = await readWholeFeed(store, 100);
  return {
    jobs: await findAll(store),
    counts: sortStateCounts(await store.countJobs()),
    feed: feed.map((record) => sortEvents(record)),
    docs: await store.readDocs({ kind: "deferred", prefix: "", after: null, max: 100 }),
  };
}

const kinds: Readonly<Record<string, (id: string) => readonly NewJob[]>> = {
  flow: (id) => [aFlow(2, { id, tags: ["t"] })],
  member: (id) => [aFlow(1, { id: `${id}f` }), { ...aMember(id, { need: 1 }), id, flow: `${id}f` }],
  ready: (id) => [aJob({ id })],
  scheduled: (id) => [aJob({ id, due: { inMs: 50 } })],
  large: (id) => [aFlow(1, { id, input: "x".repeat(3000) })],
  keyed: (id) => [aJob({ id, unique: { key: id, hold: "end", onHeld: "keep" } })],
  laned: (id) => [aJob({ id, laneKey: `lane ${id}`, laneGates: ["1:9:g:mail\tk"] })],
};
const someJobs = fc.array(fc.constantFrom("flow", "flow", "flow", ...Object.keys(kinds)), {
  minLength: 1,
  maxLength: 5,
});
const someEnd = fc.record({
  to: fc.constantFrom("completed" as const, "failed" as const, "cancelled" as const),
  state: fc.constantFrom("blocked" as const, "blocked" as const, "ready" as const, "scheduled" as const),
  keepMs: fc.constantFrom(null, 0, 30),
  result: fc.constantFrom(null, "1", 'hard \x1e\x1f\x02 "\\'),
  attempts: fc.constantFrom(undefined, null, "[]"),
  revs: fc.array(fc.constantFrom(undefined, 1, 1, 2), { minLength: 5, maxLength: 5 }),
});

test("changes that end jobs alike leave the same, as a set or one by one", async () => {
  let sets = 0;
  const property = fc.asyncProperty(someJobs, someEnd, async (names, end) => {
    fc.pre(arrows[end.state].includes(end.to));
    runs += 1;
    const ids = names.map((_, at) => `r${runs}j${at}`);
    const jobs = names.flatMap((name, at) => kinds[name]?.(ids[at] as string) ?? []);
    const next = finish(end.to, { keepMs: end.keepMs, result: end.result });
    const changes = [...ids, "nobody"]
      .slice(0, ids.length + (end.state === "scheduled" ? 1 : 0))
      .map((id, at) => {
        const rev = end.revs[at];
        const change = aChange(id, [end.state], next, rev === undefined ? {} : { rev });
        const cases = change.cases.map((each) => ({
          ...each,
          ...(end.attempts === undefined ? {} : { attempts: end.attempts }),
        }));
        return { ...change, cases };
      });
    // A case of which no job is.
    const never = { guard: { states: ["suspended" as const] }, next };
    const singly = changes.map((change): Change => ({ ...change, cases: [...change.cases, never] }));
    expect(arePlainEnds(singly)).toBe(false);
    sets += arePlainEnds(changes) ? 1 : 0;
    for (const store of [one, other]) await store.submit([{ jobs }]);
    expect(await one.changeIf(changes)).toEqual(await other.changeIf(singly));
    expect(await shown(one)).toEqual(await shown(other));
  });
  await fc.assert(property, { numRuns: 40, endOnFailure: true });
  expect(sets).toBeGreaterThan(10);
});

test("an end to which no arrow leads is refused in a set as well", async () => {
  const id = "no arrow";
  for (const store of [one, other]) await store.submit([{ jobs: [aJob({ id })] }]);
  const change = aChange(id, ["ready"], finish("completed"));
  expect(arePlainEnds([change])).toBe(false);
  await expect(one.changeIf([change])).rejects.toThrow("cannot move from state");
  expect((await one.readJobs([id]))[0]?.state).toBe("ready");
  for (const store of [one, other])
    await store.changeIf([aChange(id, ["ready"], { to: "deleted", event: "deleted" })]);
});

test("documents that go at known versions leave the same, as a set or one by one", async () => {
  const guards = fc.array(fc.constantFrom(1, 1, 1, 2, 3), { minLength: 5, maxLength: 5 });
  const property = fc.asyncProperty(guards, fc.boolean(), async (versions, expires) => {
    runs += 1;
    const idOf = (at: number): string => `r${runs}d${9 - at}`;
    const puts = versions.map((_, at): DocPut => {
      const put = { kind: "deferred", id: idOf(at), guard: "any" as const, body: "x", due: { inMs: 0 } };
      return at === 0 && expires ? { ...put, due: null, expiresInMs: 1 } : put;
    });
    for (const store of [one, other]) {
      await store.putDocs(puts.slice(0, 4));
      await store.putDocs(puts.slice(0, 1));
    }
    platform.advance(2);
    const deletes = versions.map((version, at): DocPut => ({
      ...{ kind: "deferred", id: idOf(at), guard: { version }, body: null },
    }));
    const nobody: DocPut = { kind: "deferred", id: "nobody", guard: "any", body: null };
    const [, ...singly] = await other.putDocs([nobody, ...deletes]);
    expect(await one.putDocs(deletes)).toEqual(singly);
    // What comes anew begins above all that is gone.
    const anew: DocPut = { kind: "deferred", id: `r${runs}anew`, guard: "absent", body: "y" };
    expect(await one.putDocs([anew])).toEqual(await other.putDocs([anew]));
    expect(await shown(one)).toEqual(await shown(other));
  });
  await fc.assert(property, { numRuns: 15, endOnFailure: true });
});
