/**
 * All paths of an operation leave the same keys: the same calls go to a store whose library has its fast paths, and to
 * one whose library has only the general ones, and all keys are compared.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { writeKeyUse } from "../../model/routing/lane.ts";
import { terminalStates } from "../../model/job/job-state.ts";
import type { ClaimAnswer, Settle } from "../../store/operations.ts";
import type { LeasedJob, NewJob } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import {
  aChange,
  aClaim,
  aGate,
  aJob,
  aRoute,
  aSettle,
  finish,
  handBack,
  remove,
  schedule,
} from "../../../test/support/builders.ts";
import { createHeldPlatform, startAt } from "../../../test/support/virtual/held-platform.ts";
import { readKeys } from "../../../test/support/redis-keys.ts";
import { useBothPaths } from "../../../test/support/redis-paths.ts";
import type { Both } from "../../../test/support/redis-paths.ts";
import { auditAll } from "../../../test/support/walk.ts";

const { plain, general, openBoth: openWith } = useBothPaths();
const cases = 30;
let drawn = 0;

const usesSlack = [{ key: "l:slack", weight: 1 }];
const usesBoth = [{ key: "l:api", weight: 2 }, ...usesSlack];
const gates = [
  aGate("l:slack", { cap: 3, perKey: { cap: 1, rate: null } }),
  aGate("l:api", { rate: { stepUs: 2000, burstUs: 9000 } }),
  aGate("q:reports", { cap: 2 }),
];

const openBoth = (): Promise<Both> => openWith(gates);

/** A unit that may have happened before takes the general path. */
const submitAll = ({ same }: Both, jobs: readonly NewJob[]): Promise<unknown> =>
  same((store, isRepeat) => store.submit(jobs.map((job) => ({ jobs: [job], isRepeat }))));

const uses = [[], [], usesSlack, usesBoth];
const routesOf = (lane: Partial<NewJob>): number[] =>
  ["mail", "reports"].flatMap((queue) =>
    ["send", "print"].flatMap((name) =>
      uses.slice(1).map((gates) => aRoute({ queue, name, gates, ...lane })),
    ),
  );
const routes = routesOf({});
const lanes = [{ laneKey: "any" }, { laneKey: "any", laneStep: 1 }].map(routesOf);
const claimSome = ({ same }: Both, max: number, offered = routes): Promise<ClaimAnswer> =>
  same((store) =>
    store.claim(aClaim({ offers: [offered, ...lanes].map((each) => ({ routes: each, max, starts: 1 })) })),
  );

const due = fc.oneof(
  fc.constant({ inMs: 0 }),
  fc.record({ inMs: fc.nat(50) }),
  fc.record({ at: fc.integer({ min: startAt - 50, max: startAt + 50 }) }),
);
const someText = fc.oneof(fc.constant(null), fc.constantFrom("", "x", 'hard \x1e\x1f\x02\0 "\\'));
const shape = fc.record({
  queue: fc.constantFrom("mail", "reports"),
  name: fc.constantFrom("send", "print"),
  input: fc.oneof(fc.constant("x".repeat(300)), fc.string()),
  policy: someText,
  meta: someText,
  tags: fc.oneof(fc.constant(null), fc.uniqueArray(fc.constantFrom("a", "b", "c"), { maxLength: 3 })),
  due,
  rankBase: fc.oneof(fc.constant(0), fc.integer({ min: -5, max: 5 })),
  rankSlope: fc.constantFrom(0, 1),
  deadline: fc.oneof(fc.constant(null), due),
  ttlMs: fc.oneof(fc.constant(null), fc.nat(50)),
  gates: fc.constantFrom(...uses),
});
const use = (key: string, cap: number | null): string => writeKeyUse({ key, weight: 1, cap });
const someLane = fc.constantFrom<Partial<NewJob>>(
  ...[{}, {}, { laneKey: "one", laneGates: [use("g:mail\tone", 2)] }],
  ...[
    { laneKey: "key", laneGates: [use("l:slack\tkey", null)] },
    { laneKey: "fair", laneStep: 5 },
  ],
  { laneKey: "both", laneStep: 7, laneGates: [use("g:mail\tboth", 1), use("l:slack\tkey", null)] },
);
const someJobs = fc
  .array(fc.tuple(shape, someLane), { minLength: 1, maxLength: 6 })
  .map((shapes) => shapes.map(([given, lane], at) => aJob({ id: `j${at}`, ...given, ...lane })));
const laneOf = (kind: string, key: number): Partial<NewJob> =>
  ({
    fair: { laneKey: `fair ${key}`, laneStep: 5 + (key % 3) },
    fifo: { laneKey: `fifo ${key}`, laneGates: [use(`g:mail\tk${key}`, 1 + (key % 2))] },
    keyed: { laneKey: `keyed ${key}`, laneGates: [use(`l:slack\tk${key}`, null)] },
  })[kind]!;
const manyLanes = fc
  .array(
    fc.record({
      kind: fc.constantFrom("fair", "fair", "fifo", "fifo", "keyed"),
      key: fc.nat(15),
      name: fc.constantFrom("send", "send", "send", "print"),
      rankBase: fc.constantFrom(0, 0, 0, 20, -20),
    }),
    { minLength: 30, maxLength: 60 },
  )
  .map((all) =>
    all.map(({ kind, key, ...given }, at) => aJob({ id: `j${at}`, ...given, ...laneOf(kind, key) })),
  );
/** Few lanes with many jobs each. */
const deepLanes = fc
  .array(
    fc.record({
      kind: fc.constantFrom("fair", "fifo"),
      key: fc.nat(3),
      rankBase: fc.constantFrom(0, 0, 0, 0, 9, -9),
    }),
    {
      minLength: 60,
      maxLength: 90,
    },
  )
  .map((all) =>
    all.map(({ kind, key, ...given }, at) => aJob({ id: `j${at}`, ...given, ...laneOf(kind, key) })),
  );
type Rounds = typeof someRounds extends fc.Arbitrary<infer Value> ? Value : never;
const someRounds = fc.array(
  fc.record({
    max: fc.integer({ min: 1, max: 20 }),
    ended: fc.nat(20),
    name: fc.constantFrom("send", "send", "print"),
    byTurn: fc.boolean(),
    removed: fc.nat(59),
  }),
  { minLength: 4, maxLength: 8 },
);
const someNext = fc.oneof(
  fc.record({
    to: fc.constantFrom(...terminalStates),
    reason: someText,
    result: someText,
    keepMs: fc.constantFrom(null, 0, 50),
  }),
  fc.constant(null),
);
const someEnds = fc.array(fc.record({ next: someNext, attempts: someText }), { minLength: 6, maxLength: 6 });

function nextOf(given: { to: (typeof terminalStates)[number] } | null, at: number): Settle["next"] {
  if (given !== null) return finish(given.to, given);
  return at % 2 === 0 ? handBack : schedule(5);
}

describe("the same jobs by either path leave the same keys", () => {
  test("at their submit", async () => {
    await fc.assert(
      fc.asyncProperty(someJobs, async (jobs) => {
        await submitAll(await openBoth(), jobs);
      }),
      { numRuns: cases },
    );
  });

  test("at their claims, the first and the later ones, of one route or of several", async () => {
    await fc.assert(
      fc.asyncProperty(someJobs, fc.integer({ min: 1, max: 6 }), async (jobs, max) => {
        const both = await openBoth();
        await submitAll(both, jobs);
        const first = await claimSome(both, max);
        await both.same((store) => store.settleIfLeased(first.jobs.map((job) => aSettle(job, handBack))));
        await claimSome(both, max, routes.slice(0, 1));
        await claimSome(both, 20);
      }),
      { numRuns: cases },
    );
  });

  async function claimByLanes(jobs: readonly NewJob[], rounds: Rounds, atOnce: number): Promise<void> {
    const both = await openBoth();
    for (let from = 0; from < 30; from += atOnce) await submitAll(both, jobs.slice(from, from + atOnce));
    let leased: LeasedJob[] = [];
    for (const [round, { max, ended, name, byTurn, removed }] of rounds.entries()) {
      const route = aRoute({ laneKey: "any", name, ...(byTurn ? { laneStep: 1 } : {}) });
      const { jobs: more } = await both.same((store) =>
        store.claim(aClaim({ offers: [{ routes: [route], max, starts: 3 }] })),
      );
      leased.push(...more);
      const settles = leased.slice(0, ended).map((job, at) => aSettle(job, at % 5 < 4 ? finish() : handBack));
      leased = leased.slice(ended);
      await both.same((store) => store.settleIfLeased(settles));
      const from = 30 + 20 * round;
      if (from < jobs.length) await submitAll(both, jobs.slice(from, from + 20));
      await both.same((store) => store.changeIf([aChange(`j${removed}`, ["ready"], remove)]));
      expect(await both.same((store) => auditAll(store))).toEqual({});
    }
  }

  test("at their claims by many lanes, as a set and one by one", async () => {
    await fc.assert(
      fc.asyncProperty(manyLanes, someRounds, (jobs, rounds) => claimByLanes(jobs, rounds, 30)),
      { numRuns: cases },
    );
  });

  test("at their claims by a few lanes with many jobs each", async () => {
    await fc.assert(
      fc.asyncProperty(deepLanes, someRounds, (jobs, rounds) => claimByLanes(jobs, rounds, 10)),
      { numRuns: cases / 2 },
    );
  });

  test("at their ends, alike or not, of first and of later attempts, and settled once more", async () => {
    await fc.assert(
      fc.asyncProperty(someJobs, someEnds, async (jobs, ends) => {
        const both = await openBoth();
        await submitAll(both, jobs);
        for (let round = 0; round < 2; round++) {
          const { jobs: leased } = await claimSome(both, 6);
          const settles = leased.map((job, at) => {
            const { next, attempts } = ends[at]!;
            return aSettle(job, nextOf(next, at), { attempts });
          });
          await both.same((store) => store.settleIfLeased(settles));
          await both.same((store) => store.settleIfLeased(settles));
        }
      }),
      { numRuns: cases },
    );
  });

  /**
   * Ends 40 jobs together: some started late, some have logs or results, and two are settled twice. Answers how many
   * were.
   */
  async function endMany(
    jobs: readonly NewJob[],
    lane: { readonly laneKey?: string },
  ): Promise<Record<string, number>> {
    const both = await openBoth();
    await submitAll(both, jobs);
    const offers = [{ routes: [aRoute({ queue: "mail", name: "send", ...lane })], max: 40, starts: 15 }];
    const { jobs: leased } = await both.same((store) => store.claim(aClaim({ offers })));
    expect(leased).toHaveLength(40);
    const settles = leased.map((job, at) => {
      const attempts = at % 8 === 7 ? "x".repeat(60) : `1 ${at} 2`;
      return aSettle(job, finish("completed", at >= 25 ? { result: `"${at}"` } : {}), {
        attempts: at < 5 ? null : attempts,
      });
    });
    const twice = [...settles.slice(0, 12), ...settles.slice(10)];
    const answers = await both.same((store) => store.settleIfLeased(twice));
    expect(await both.same((store) => auditAll(store))).toEqual({});
    const emitted: Record<string, number> = {};
    for (const { kind } of answers) emitted[kind] = (emitted[kind] ?? 0) + 1;
    return emitted;
  }

  test("at ends of many that are alike, some of which started late, with logs, results, and one of them twice", async () => {
    const jobs = Array.from({ length: 40 }, (_, at) => aJob({ id: `j${at}`, input: String(at) }));
    expect(await endMany(jobs, {})).toEqual({ ok: 40, already: 2 });
  });

  test("at ends of many that are alike but for their keys, with one gate or several, of one permit or more", async () => {
    const gatesOf = (at: number): string[] => {
      if (at % 10 === 6) return [use(`g:mail\tk${at}`, 1), use(`l:other\tk${at}`, null)];
      if (at % 10 === 8) return [writeKeyUse({ key: `g:mail\tk${at}`, weight: 2, cap: 3 })];
      return [at < 30 ? use(`g:mail\tk${at}`, 1) : use("l:other\tshared", null)];
    };
    const jobs = Array.from({ length: 40 }, (_, at) =>
      aJob({ id: `j${at}`, input: String(at), laneKey: `lane ${at}`, laneGates: gatesOf(at) }),
    );
    expect(await endMany(jobs, { laneKey: "any" })).toEqual({ ok: 40, already: 2 });
  });

  test("at the submit of one job, alone or in one call with the claim after it", async () => {
    const platform = createHeldPlatform();
    const [waits, taken] = [`waits-${++drawn}`, `taken-${drawn}`];
    const open = (place: typeof plain, prefix: string): Promise<Store> =>
      place.open({ platform, clock: "platform", prefix });
    const [one, other, slow] = [
      await open(plain, waits),
      await open(plain, taken),
      await open(general, waits),
    ];
    for (const store of [one, other, slow]) await store.putGates(gates);
    const kinds = [
      {},
      {},
      { policy: "p", meta: "m" },
      {},
      { rankBase: 5 },
      { name: "print" },
      { tags: ["a"] },
      {},
      ...Array.from({ length: 5 }, () => ({ gates: usesSlack })),
      ...Array.from({ length: 3 }, () => ({ queue: "reports" })),
      {},
    ];
    for (const [at, given] of kinds.entries()) {
      platform.advance(7);
      const job = aJob({ id: `j${at}`, ...given });
      const claim = aClaim({ offers: [{ routes, max: at === 3 ? 1 : 3, starts: at % 3 }] });
      await slow.submit([{ jobs: [job], isRepeat: true }]);
      const claimed = await slow.claim(claim);
      await one.submit([{ jobs: [job] }]);
      expect(await one.claim(claim)).toEqual(claimed);
      expect((await Promise.all([other.submit([{ jobs: [job] }]), other.claim(claim)]))[1]).toEqual(claimed);
      const left = await readKeys(general.admin, waits);
      expect(await readKeys(plain.admin, waits)).toEqual(left);
      const right = await readKeys(plain.admin, taken);
      expect({ ...right, feed: eventsOf(right) }).toEqual({ ...left, feed: eventsOf(left) });
    }
  });
});

/** Times and events of the feed in a row, because one call makes one record. */
function eventsOf({ feed }: Record<string, unknown>): string[] {
  return (feed as [string, string[]][]).flatMap(([, [, at, , events]]) =>
    (events as string).split("\x1e").map((event) => `${at} ${event}`),
  );
}
