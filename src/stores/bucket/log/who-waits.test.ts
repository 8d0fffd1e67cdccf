/**
 * Who waits for the bucket: random commits and landings, and after each answered claim a look whether its jobs are
 * claimable in the bucket as it is then. Beside that the two cases that chance meets seldom.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  aChange,
  aClaim,
  aGate,
  aJob,
  aRoute,
  aSettle,
  finish,
  handBack,
  schedule,
} from "../../../../test/support/builders.ts";
import { handedOutEarly } from "../../../../test/simulation/handed-out.ts";
import type { Taken } from "../../../../test/simulation/handed-out.ts";
import { groupGateKey, groupLane, keyedGate, writeKeyUse } from "../../../model/routing/lane.ts";
import type { ClaimAnswer } from "../../../store/operations.ts";
import type { LeasedJob, NewJob } from "../../../store/records.ts";
import type { Store } from "../../../store/store.ts";
import { createVirtualPlatform } from "../../../testing/virtual-platform.ts";
import { settleTurn } from "../../../testing/virtual-time.ts";
import { openBucketStore } from "../bucket-store.ts";
import { logPrefix, numberOf } from "../layout.ts";
import { MemoryBucket } from "../objects/memory.ts";

let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "millrace-who-waits-"))));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const gates = [{ key: "limit:x", weight: 1 }];
const laneOf = (group: string) => ({
  laneKey: groupLane("mail", group, "rank"),
  laneStep: null,
  laneGates: [writeKeyUse({ key: keyedGate(groupGateKey("mail"), group), weight: 1, cap: 1 })],
});
/** Plain, at a limit, and of two names that stand in the same lanes. */
const kinds: readonly Partial<NewJob>[] = [
  {},
  { name: "limited", gates },
  { name: "one", ...laneOf("k") },
  { name: "two", ...laneOf("k") },
];
const routeOf = ({ name, gates: of, laneKey }: Partial<NewJob>): number =>
  aRoute({
    ...(name === undefined ? {} : { name }),
    gates: of,
    ...(laneKey === undefined ? {} : { laneKey }),
  });
const routes = kinds.map(routeOf);

/** A store whose records land when the test says so. */
async function openHeld() {
  const bucket = new MemoryBucket();
  const platform = createVirtualPlatform({ turns: "real" });
  const own = bucket.open();
  const carried = new Map<number, number>();
  const taken: { position: number; jobs: readonly LeasedJob[] }[] = [];
  const positions = new Map<unknown, number>();
  let held: (() => void) | null = null;
  let isHeld = false;
  const world = { landed: 0, early: 0, late: 0 };
  const store = await openBucketStore({
    ...{ platform, whenHeld: "take", cacheFolder: folder },
    objects: {
      put: async (name, bytes, ifAbsent) => {
        const isRecord = name.startsWith(logPrefix);
        if (isRecord && isHeld) await new Promise<void>((resolve) => (held = resolve));
        const answer = await own.put(name, bytes, ifAbsent);
        if (isRecord) world.landed = carried.get(numberOf(name)) ?? world.landed;
        return answer;
      },
      get: (name) => own.get(name),
      list: (prefix, after) => own.list(prefix, after),
      remove: (names) => own.remove(names),
      close: () => own.close(),
    },
    witness: {
      onPut: (n, position) => void carried.set(n, position),
      onTaken: (calls, { outcomes }, position) => {
        for (const [at, { operation, request }] of calls.entries()) {
          const outcome = outcomes[at];
          positions.set(request, position);
          if (operation === "claim" && outcome?.kind === "answer")
            taken.push({ position, jobs: (outcome.answer as ClaimAnswer).jobs });
        }
      },
    },
  });
  const land = async (): Promise<void> => {
    held?.();
    held = null;
    await settleTurn();
  };
  return {
    ...{ store, world, land, platform },
    hold: () => void (isHeld = true),
    close: async () => {
      isHeld = false;
      await land();
      await store.close();
    },
    /** A claim, and whether it was answered before it had landed. Sentences say what it handed out too early. */
    claim: async (offers: readonly { routes: readonly number[]; max: number }[], found: string[]) => {
      const request = aClaim({ offers, leaseMs: 3_600_000 });
      const answer = await store.claim(request);
      const position = positions.get(request) ?? 0;
      if (answer.jobs.length === 0) return answer;
      if (position <= world.landed) world.late += 1;
      else {
        world.early += 1;
        const ids = new Set(answer.jobs.map(({ id }) => id));
        const before: Taken[] = taken
          .filter((each) => each.position > world.landed && each.position <= position)
          .flatMap(({ jobs }) => jobs.filter(({ id }) => !ids.has(id)));
        const path = join(folder, `copy-${(copies += 1)}.db`);
        const { processId: pid } = platform;
        found.push(...(await handedOutEarly(bucket.open(), path, { answer, before, pid })));
      }
      return answer;
    },
  };
}
let copies = 0;

const stepOf = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ does: fc.constant("submit" as const), kind: fc.nat(3), isLater: fc.nat(5) }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      does: fc.constant("claim" as const),
      kind: fc.nat(3),
      max: fc.integer({ min: 1, max: 3 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ does: fc.constant("settle" as const), at: fc.nat(9), how: fc.nat(3) }),
  },
  { weight: 2, arbitrary: fc.record({ does: fc.constant("cancel" as const), at: fc.nat(9) }) },
  {
    weight: 3,
    arbitrary: fc.record({ does: fc.constant("gate" as const), cap: fc.integer({ min: 0, max: 2 }) }),
  },
  { weight: 1, arbitrary: fc.record({ does: fc.constant("promote" as const) }) },
  { weight: 3, arbitrary: fc.record({ does: fc.constant("land" as const) }) },
  { weight: 4, arbitrary: fc.record({ does: fc.constant("pause" as const) }) },
);

test("no claim hands out a job that was made, freed or became first by what has not landed", async () => {
  const seen = { early: 0, late: 0 };
  const property = fc.asyncProperty(fc.array(stepOf, { minLength: 60, maxLength: 90 }), async (steps) => {
    const { store, world, hold, land, claim, close, platform } = await openHeld();
    const [ids, leases, found]: [string[], LeasedJob[], string[]] = [[], [], []];
    const pending: Promise<unknown>[] = [];
    const begin = (call: Promise<unknown>): void => void pending.push(call);
    begin(store.putGates([aGate("limit:x", { cap: 1 })]));
    const first = kinds.flatMap((kind, at) =>
      [0, 1, 2, 3].map((of) => aJob({ id: `first-${at}-${of}`, ...kind })),
    );
    begin(store.submit([{ jobs: first }]));
    await Promise.all(pending);
    ids.push(...first.map(({ id }) => id));
    hold();
    for (const [number, step] of steps.entries()) {
      const lease = step.does === "settle" ? leases[step.at % Math.max(1, leases.length)] : undefined;
      if (step.does === "submit") {
        const id = `job-${number}`;
        ids.push(id);
        const due = { inMs: step.isLater === 0 ? 1 : 0 };
        begin(store.submit([{ jobs: [aJob({ id, ...kinds[step.kind], due })] }]));
      } else if (step.does === "claim") {
        // Of each order of lanes one offer.
        const asked = step.kind < 2 ? [routes[step.kind] as number] : routes.slice(step.kind);
        const offers = [{ routes: asked, max: step.max }];
        begin(claim(offers, found).then(({ jobs }) => void leases.push(...jobs)));
      } else if (lease !== undefined && step.does === "settle") {
        leases.splice(leases.indexOf(lease), 1);
        const next = [finish(), finish("failed"), schedule(1), handBack][step.how] as ReturnType<
          typeof finish
        >;
        begin(store.settleIfLeased([aSettle(lease, next)]));
      } else if (step.does === "cancel") {
        const id = ids[step.at % ids.length] as string;
        begin(store.changeIf([aChange(id, ["ready", "scheduled"], finish("cancelled"))]));
      } else if (step.does === "gate") begin(store.putGates([aGate("limit:x", { cap: step.cap })]));
      else if (step.does === "promote") {
        await platform.time.advance(2000);
        begin(store.promoteDue({ max: 10 }));
      } else if (step.does === "land") await land();
      else await settleTurn();
    }
    for (let rest = 0; rest < 20; rest++) await land();
    await close();
    await Promise.all(pending);
    expect(found).toEqual([]);
    seen.early += world.early;
    seen.late += world.late;
  });
  await fc.assert(property, { numRuns: 20 });
  // Else it would say nothing, and claims would be slow for nothing.
  expect(Math.min(seen.early, seen.late)).toBeGreaterThan(10);
});

/** Whether a claim of these routes is answered while the record of what came before it is held. */
async function isEarly(
  given: readonly Partial<NewJob>[],
  asked: readonly number[],
  act: (store: Store) => void,
) {
  const { store, hold, land, claim, close } = await openHeld();
  const jobs = given.map((job, at) => aJob({ id: `given-${at}`, ...job }));
  await store.submit([{ jobs }]);
  hold();
  act(store);
  let isAnswered = false;
  const claiming = claim([{ routes: asked, max: 5 }], []).then(({ jobs: got }) => {
    isAnswered = true;
    return got.map(({ id }) => id);
  });
  for (let turn = 0; turn < 5; turn++) await settleTurn();
  const wasEarly = isAnswered;
  for (let turn = 0; turn < 5; turn++) await land();
  const ids = await claiming;
  await close();
  return { wasEarly, ids };
}

test("a claim waits for what made its job the first of its lane, though no job of that route became ready", async () => {
  const [one, two] = kinds.slice(2) as [Partial<NewJob>, Partial<NewJob>];
  const cancel = (store: Store): void =>
    void store.changeIf([aChange("given-0", ["ready"], finish("cancelled"))]);
  expect(await isEarly([one, two], [routeOf(two)], cancel)).toEqual({ wasEarly: false, ids: ["given-1"] });
  expect(await isEarly([one], [routeOf(one)], () => undefined)).toEqual({ wasEarly: true, ids: ["given-0"] });
});

test("a claim waits for the job of a submit that was made in the same flush and that it has taken at once", async () => {
  const submit = (store: Store): void => void store.submit([{ jobs: [aJob({ id: "new" })] }]);
  expect(await isEarly([], [aRoute()], submit)).toEqual({ wasEarly: false, ids: ["new"] });
});

test("a claim waits for the permit that a settle gives back, and for the gate that a put opens", async () => {
  const limited = kinds[1] as Partial<NewJob>;
  const asked = [routeOf(limited)];
  const { store, hold, land, claim, close } = await openHeld();
  await store.putGates([aGate("limit:x", { cap: 1 })]);
  await store.submit([{ jobs: ["a", "b", "c"].map((id) => aJob({ id, ...limited })) }]);
  const found: string[] = [];
  const offers = [{ routes: asked, max: 5 }];
  const { jobs } = await claim(offers, found);
  await land();
  hold();
  for (const act of [
    () => store.settleIfLeased([aSettle(jobs[0] as LeasedJob, finish())]),
    () => store.putGates([aGate("limit:x", { cap: 2 })]),
  ]) {
    void act();
    await settleTurn();
    let isAnswered = false;
    const claiming = claim(offers, found).then((answer) => {
      isAnswered = true;
      return answer;
    });
    for (let turn = 0; turn < 5; turn++) await settleTurn();
    expect(isAnswered).toBe(false);
    for (let turn = 0; turn < 5; turn++) await land();
    expect((await claiming).jobs).toHaveLength(1);
  }
  await close();
  expect(found).toEqual([]);
});
