/**
 * Claims of lanes by turn, whatever comes between them: jobs that are cancelled, come ahead or have another step, the
 * audit, a paused queue. They are those of the reference model, and claimers that work at once hand each job out once.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { answerAlike } from "../../../../test/support/answer-alike.ts";
import {
  aChange,
  aClaim,
  aGate,
  aJob,
  aRoute,
  aSettle,
  finish,
  schedule,
} from "../../../../test/support/builders.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { SchemaPool } from "../../../../test/support/servers/postgres-shared.ts";
import { openReference } from "../../../../test/support/stores/reference-as-store.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { foreverMs, queueGateKey } from "../../../model/limits/gate.ts";
import { laneStepOf } from "../../../model/routing/lane.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import type { LeasedJob } from "../../../store/records.ts";
import type { Store } from "../../../store/store.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();
const schemas = new SchemaPool(database);
const laneStep = laneStepOf(1);
const routeOf = (name: string): number => aRoute({ name, laneKey: "any", laneStep });
const offers = [...Array.from({ length: 9 }, () => ["send"]), ["post"], ["send", "post"]];

/** Mostly alike, so that lines grow long. */
const mostly = <Value>(usual: Value, rare: Value): fc.Arbitrary<Value> =>
  fc.oneof({ weight: 30, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constant(rare) });
const job = fc.record({
  lane: fc.nat(4),
  name: mostly("send", "post"),
  weight: mostly(1, 2),
  rankBase: mostly(0, -50),
  dueIn: mostly(0, 2),
  ttl: mostly<number | null>(null, 500),
});
const step = fc.oneof(
  { weight: 12, arbitrary: fc.record({ submit: fc.array(job, { minLength: 8, maxLength: 30 }) }) },
  {
    weight: 48,
    arbitrary: fc.record({ offer: fc.nat(offers.length - 1), max: fc.integer({ min: 1, max: 4 }) }),
  },
  { weight: 3, arbitrary: fc.record({ cancel: fc.nat(60) }) },
  { weight: 6, arbitrary: fc.record({ settle: fc.nat(5), again: fc.option(fc.nat(3)) }) },
  { weight: 6, arbitrary: fc.record({ passMs: fc.constantFrom(1, 2, 400, 1001) }) },
  { weight: 2, arbitrary: fc.record({ audit: fc.constant(true) }) },
  // From then on the queue has a gate.
  { weight: 1, arbitrary: fc.record({ isPaused: fc.boolean() }) },
);

async function audit(store: Store): Promise<Record<string, number>> {
  const repaired: Record<string, number> = {};
  for (let cursor: string | null = null; ;) {
    const answer = await store.auditIndexes({ cursor, max: 2 });
    Object.assign(repaired, answer.repaired);
    cursor = answer.cursor;
    if (cursor === null) return repaired;
  }
}

test("claims by turn hand out what the reference model hands out, whatever comes between them", async () => {
  const property = fc.asyncProperty(fc.array(step, { minLength: 50, maxLength: 70 }), async (steps) => {
    const platform = createHeldPlatform();
    const store = await schemas.open((place) => openPostgresStore({ ...place, platform, clock: "platform" }));
    const reference = openReference(platform, 1);
    const both = answerAlike(store, reference);
    try {
      let count = 0;
      let running: LeasedJob[] = [];
      for (const each of steps) {
        if ("submit" in each) {
          const jobs = each.submit.map(({ lane, name, weight, rankBase, dueIn, ttl }) =>
            aJob({
              ...{ id: `j${++count}`, name, laneKey: `lane ${lane}`, laneStep: laneStepOf(weight) },
              ...{ rankBase, due: { inMs: dueIn }, ttlMs: ttl },
            }),
          );
          await both((asked) => asked.submit([{ jobs }]));
        } else if ("offer" in each) {
          const offer = { routes: (offers[each.offer] as string[]).map(routeOf), max: each.max };
          const { jobs } = await both((asked) => asked.claim(aClaim({ leaseMs: 1e6, offers: [offer] })));
          running = [...running, ...jobs];
        } else if ("cancel" in each) {
          const change = aChange(`j${each.cancel}`, ["ready", "scheduled"], finish("cancelled"));
          await both((asked) => asked.changeIf([change]));
        } else if ("settle" in each) {
          const next = each.again === null ? finish() : schedule(each.again);
          const settles = running.slice(0, each.settle).map((leased) => aSettle(leased, next));
          running = running.slice(each.settle);
          await both((asked) => asked.settleIfLeased(settles));
        } else if ("isPaused" in each) {
          const closed = each.isPaused ? { at: foreverMs } : null;
          await both((asked) => asked.putGates([aGate(queueGateKey("mail"), { closed })]));
        } else if ("passMs" in each) {
          platform.advance(each.passMs);
          await both((asked) => asked.promoteDue({ max: 10 }));
        } else expect(await audit(store)).toEqual({});
      }
    } finally {
      await store.close();
    }
  });
  await fc.assert(property, { numRuns: 12 });
});

test("claimers that work at once hand each job out once and in the order of its lane, while jobs come and are cancelled", async () => {
  const [lanes, rounds] = [30, 12];
  const store = await schemas.open((place) => openPostgresStore({ ...place, platform: nodePlatform }));
  const ended = new Map<string, number>();
  const total = 2 * lanes * rounds;
  const end = (id: string): void => void ended.set(id, (ended.get(id) ?? 0) + 1);
  const submit = async (from: number): Promise<void> => {
    for (let round = 0; round < rounds; round++) {
      const jobs = Array.from({ length: lanes }, (_, lane) =>
        aJob({
          id: `${lane} ${from + round}`,
          laneKey: `lane ${lane}`,
          laneStep,
          rankBase: round === 7 ? -1e6 : 0,
        }),
      );
      await store.submit([{ jobs }]);
    }
  };
  const cancel = async (): Promise<void> => {
    for (let at = 0; at < rounds; at++) {
      const id = `${at} ${at}`;
      const [answer] = await store.changeIf([aChange(id, ["ready"], finish("cancelled"))]);
      if (answer?.kind === "ok") end(id);
    }
  };
  const work = async (max: number): Promise<void> => {
    // A claim that comes back with nothing may only have met another that held the lanes.
    while (ended.size < total) {
      const { jobs } = await store.claim(
        aClaim({ leaseMs: 1e6, offers: [{ routes: [routeOf("send")], max }] }),
      );
      const seen = new Map<string, number>();
      for (const { id } of jobs) {
        const [lane, number] = id.split(" ") as [string, string];
        const round = Number(number) % rounds;
        if (round !== 7) {
          expect(Number(number)).toBeGreaterThan(seen.get(lane) ?? -1);
          seen.set(lane, Number(number));
        }
        end(id);
      }
      await store.settleIfLeased(jobs.map((leased) => aSettle(leased, finish())));
    }
  };
  try {
    await submit(0);
    await Promise.all([submit(rounds), cancel(), work(1), work(7), work(20)]);
    const left = await store.claim(aClaim({ offers: [{ routes: [routeOf("send")], max: 1 }] }));
    expect(left.jobs).toEqual([]);
    expect([...ended.values()].every((times) => times === 1)).toBe(true);
  } finally {
    await store.close();
  }
});

test("a job of another name is not claimed before the jobs ahead of it in its lane", async () => {
  const platform = createHeldPlatform();
  const store = await schemas.open((place) => openPostgresStore({ ...place, platform, clock: "platform" }));
  const claimIds = async (name: string, max: number): Promise<string[]> =>
    (await store.claim(aClaim({ offers: [{ routes: [routeOf(name)], max }] }))).jobs.map(({ id }) => id);
  try {
    const jobs = Array.from({ length: 8 }, (_, at) => aJob({ id: `j${at}`, laneKey: `${at % 2}`, laneStep }));
    await store.submit([{ jobs }]);
    expect(await claimIds("send", 2)).toEqual(["j0", "j1"]);
    platform.advance(1);
    await store.submit([{ jobs: [aJob({ id: "last", name: "post", laneKey: "0", laneStep })] }]);
    expect(await claimIds("post", 1)).toEqual([]);
    expect(await claimIds("send", 9)).toEqual(["j2", "j3", "j4", "j5", "j6", "j7"]);
    expect(await claimIds("post", 1)).toEqual(["last"]);
  } finally {
    await store.close();
  }
});
