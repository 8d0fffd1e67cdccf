/**
 * Claims of lanes are those of the reference model, whatever lanes, gates and offers meet; and of claimers that work
 * at once none exceeds a cap or breaks the order of a lane, while jobs arrive ahead of those that wait.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { answerAlike } from "../../../../test/support/answer-alike.ts";
import { aClaim, aGate, aJob, aRoute, aSettle, finish, schedule } from "../../../../test/support/builders.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import { SchemaPool } from "../../../../test/support/servers/postgres-shared.ts";
import { openReference } from "../../../../test/support/stores/reference-as-store.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { foreverMs, limitGateKey } from "../../../model/limits/gate.ts";
import { groupGateKey, keyedGate, laneStepOf, writeKeyUse } from "../../../model/routing/lane.ts";
import type { LaneFields } from "../../../model/routing/lane.ts";
import type { LeasedJob } from "../../../store/records.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();
const schemas = new SchemaPool(database);
const runs = 60;

const slack = limitGateKey("slack");
const ofGroup = (key: string, cap: number): string =>
  writeKeyUse({ key: keyedGate(groupGateKey("mail"), key), weight: 1, cap });
const ofLimit = (key: string, weight: number): string =>
  writeKeyUse({ key: keyedGate(slack, key), weight, cap: null });

interface Kind extends LaneFields {
  readonly name: string;
}
const byRank: readonly Kind[] = [
  { name: "send", laneKey: "fifo a", laneStep: null, laneGates: [ofGroup("a", 1)] },
  { name: "post", laneKey: "fifo a", laneStep: null, laneGates: [ofGroup("a", 1)] },
  { name: "send", laneKey: "two b", laneStep: null, laneGates: [ofGroup("b", 2)] },
  { name: "send", laneKey: "key x", laneStep: null, laneGates: [ofLimit("x", 1)] },
  { name: "post", laneKey: "heavy x", laneStep: null, laneGates: [ofLimit("x", 2)] },
  // Texts of lists that are read without their JSON must not be taken for others.
  { name: "send", laneKey: "odd", laneStep: null, laneGates: [ofGroup(String.raw`o"]["1:9:\t`, 1)] },
  { name: "send", laneKey: "colons", laneStep: null, laneGates: [ofGroup("1:2:c", 1)] },
  { name: "send", laneKey: "both", laneStep: null, laneGates: [ofGroup("c", 1), ofLimit("x", 1)] },
];
const byTurn: readonly Kind[] = [
  { name: "send", laneKey: "fair a", laneStep: laneStepOf(1), laneGates: null },
  { name: "send", laneKey: "fair b", laneStep: laneStepOf(3), laneGates: null },
  { name: "post", laneKey: "fair a", laneStep: laneStepOf(2), laneGates: null },
  { name: "send", laneKey: "fair y", laneStep: laneStepOf(1), laneGates: [ofLimit("y", 1)] },
];
const kinds = [...byRank, ...byTurn];

const bounds = {
  cap: fc.option(fc.nat(3), { freq: 1 }),
  rate: fc.option(fc.record({ stepUs: fc.constantFrom(1000, 2500), burstUs: fc.constantFrom(2500, 5000) })),
};
const put = fc.oneof(
  fc.record({ key: fc.constant(slack), perKey: fc.option(fc.record(bounds)) }),
  fc.record({
    key: fc.constantFrom(keyedGate(slack, "x"), keyedGate(slack, "y")),
    ...bounds,
    closed: fc.option(fc.constantFrom({ inMs: 3 }, { at: foreverMs }), { freq: 4 }),
    emptiesRate: fc.boolean(),
  }),
);
const offer = fc.record({ isByTurn: fc.boolean(), names: fc.nat(2), max: fc.nat(5), starts: fc.nat(2) });
const step = fc.oneof(
  { weight: 1, arbitrary: fc.record({ put }) },
  {
    weight: 4,
    arbitrary: fc.record({
      submit: fc.array(fc.record({ kind: fc.nat(kinds.length - 1), rankBase: fc.nat(3) }), { maxLength: 8 }),
    }),
  },
  { weight: 5, arbitrary: fc.record({ offers: fc.array(offer, { minLength: 1, maxLength: 2 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({ settle: fc.nat(5), again: fc.option(fc.nat(3)), keepsLane: fc.boolean() }),
  },
  { weight: 2, arbitrary: fc.record({ passMs: fc.integer({ min: 1, max: 5 }) }) },
);

const routesOf = (lanes: readonly Kind[], names: number): number[] => {
  const [lane] = lanes as [Kind];
  const given = { laneKey: lane.laneKey, laneStep: lane.laneStep };
  return [["send"], ["post"], ["send", "post"]][names]!.map((name) => aRoute({ ...given, name }));
};

test("claims of lanes hand out what the reference model hands out", async () => {
  const property = fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 30 }), async (steps) => {
    const platform = createHeldPlatform();
    const store = await schemas.openCounted((place) =>
      openPostgresStore({ ...place, platform, clock: "platform" }),
    );
    const reference = openReference(platform, 1);
    const both = answerAlike(store, reference);
    try {
      let count = 0;
      let running: LeasedJob[] = [];
      for (const each of steps) {
        if ("put" in each) await both((asked) => asked.putGates([aGate(each.put.key, each.put)]));
        else if ("submit" in each) {
          const jobs = each.submit.map(({ kind, rankBase }) =>
            aJob({ id: `j${++count}`, ...kinds[kind], rankBase }),
          );
          await both((asked) => asked.submit([{ jobs }]));
        } else if ("offers" in each) {
          const offers = each.offers.map(({ isByTurn, names, max, starts }) => ({
            routes: routesOf(isByTurn ? byTurn : byRank, names),
            max,
            starts,
          }));
          const { jobs } = await both(async (asked) => {
            const { opensInMs: _opens, ...answer } = await asked.claim(aClaim({ leaseMs: 1e6, offers }));
            return answer;
          });
          running = [...running, ...jobs];
        } else if ("settle" in each) {
          const { settle, again, keepsLane } = each;
          const next = again === null ? finish() : schedule(again, keepsLane ? { keepsLane } : {});
          const settles = running.slice(0, settle).map((job) => aSettle(job, next));
          running = running.slice(settle);
          await both((asked) => asked.settleIfLeased(settles));
        } else {
          platform.advance(each.passMs);
          await both((asked) => asked.promoteDue({ max: 10 }));
        }
        const keys = ["x", "y"].map((key) => keyedGate(slack, key));
        const groups = ["a", "b", "c"].map((key) => keyedGate(groupGateKey("mail"), key));
        await both((asked) => asked.readGates({ keys: [...keys, ...groups] }));
      }
    } finally {
      await store.close();
    }
  });
  await fc.assert(property, { numRuns: runs });
});

test("among many lanes, of which most are busy or deep, claims hand out what the reference model hands out", async () => {
  const lane = fc.record({ number: fc.nat(59), isDeep: fc.boolean(), rankBase: fc.nat(3) });
  const turn = fc.record({ claim: fc.integer({ min: 1, max: 40 }), settle: fc.nat(30) });
  const given = fc.record({
    isByTurn: fc.boolean(),
    lanes: fc.array(lane, { minLength: 80, maxLength: 160 }),
    turns: fc.array(turn, { minLength: 4, maxLength: 8 }),
  });
  const property = fc.asyncProperty(given, async ({ isByTurn, lanes, turns }) => {
    const platform = createHeldPlatform();
    const store = await schemas.openCounted((place) =>
      openPostgresStore({ ...place, platform, clock: "platform" }),
    );
    const both = [store, openReference(platform, 1)] as const;
    const laneStep = isByTurn ? laneStepOf(1) : null;
    try {
      // Some share the key of a limit, which lets the light ones pass where a heavy one has to wait.
      const jobs = lanes.map(({ number, isDeep, rankBase }, at) => {
        const key = isDeep ? number % 3 : number;
        const gate = key % 7 === 6 ? ofLimit("x", (key % 2) + 1) : ofGroup(`${key}`, (key % 3) + 1);
        return aJob({
          ...{ id: `j${at}`, rankBase, laneKey: `lane ${key}`, laneStep },
          laneGates: key % 5 === 4 ? null : [gate],
        });
      });
      let running: readonly LeasedJob[] = [];
      for (const each of both) {
        await each.putGates([aGate(slack, { perKey: { cap: 5, rate: null } })]);
        await each.submit([{ jobs }]);
      }
      const routes = [aRoute({ laneKey: "any", laneStep })];
      for (const { claim, settle } of turns) {
        const [own, expected] = await Promise.all(
          both.map((each) => each.claim(aClaim({ leaseMs: 1e6, offers: [{ routes, max: claim }] }))),
        );
        expect(own!.jobs).toEqual(expected!.jobs);
        expect(own!.more || !expected!.more).toBe(true);
        running = [...running, ...own!.jobs];
        const settles = running.slice(0, settle).map((job) => aSettle(job, finish()));
        running = running.slice(settle);
        for (const each of both) await each.settleIfLeased(settles);
      }
    } finally {
      await store.close();
    }
  });
  await fc.assert(property, { numRuns: runs / 4 });
});

test("claimers that work at once exceed no cap and keep the order of each lane, with arrivals ahead of the first", async () => {
  const [lanes, each] = [12, 40];
  const capOf = (lane: number): number => (lane % 3) + 1;
  const platform = nodePlatform;
  let schema = "";
  const store = await schemas.open((place) => {
    ({ schema } = place);
    return openPostgresStore({ ...place, platform });
  });
  const routes = [aRoute({ laneKey: "any" })];
  const claimed = new Map<string, { rankBase: number; at: number }[]>();
  let done = 0;
  const submitLane = async (lane: number): Promise<void> => {
    for (let at = 0; at < each; at += 1) {
      const rankBase = -((at * 7) % 3);
      const job = aJob({
        ...{ id: `${lane} ${at} ${rankBase}`, rankBase, rankSlope: 0, laneKey: `lane ${lane}` },
        laneGates: [ofGroup(`${lane}`, capOf(lane))],
      });
      await store.submit([{ jobs: [job] }]);
    }
  };
  const work = async (max: number): Promise<void> => {
    while (done < lanes * each) {
      const { jobs } = await store.claim(aClaim({ offers: [{ routes, max }] }));
      for (const { id } of jobs) {
        const [lane, at, rankBase] = id.split(" ").map(Number) as [number, number, number];
        if (capOf(lane) === 1) claimed.set(`${lane}`, [...(claimed.get(`${lane}`) ?? []), { rankBase, at }]);
      }
      if (jobs.length > 0) await store.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
      done += jobs.length;
    }
  };
  const exceeded: unknown[] = [];
  const watch = async (): Promise<void> => {
    while (done < lanes * each) {
      const held = await database.query(
        `SELECT lane_key, count(*)::int4 AS jobs FROM ${schema}.leased GROUP BY lane_key`,
      );
      for (const { lane_key: key, jobs } of held)
        if (Number(jobs) > capOf(Number(String(key).slice("lane ".length)))) exceeded.push([key, jobs]);
    }
  };
  try {
    const submitting = Array.from({ length: lanes }, (_, lane) => submitLane(lane));
    await Promise.all([...submitting, work(1), work(3), work(20), watch()]);
    expect(exceeded).toEqual([]);
    for (const [lane, jobs] of claimed)
      for (const base of [0, -1, -2]) {
        const order = jobs.filter(({ rankBase }) => rankBase === base).map(({ at }) => at);
        expect(order, `lane ${lane}`).toEqual(order.toSorted((one, other) => one - other));
      }
  } finally {
    await store.close();
  }
});
