/**
 * What the histories are worth for lanes: each bug that is planted in the rules of lanes
 * (src/store/rules/gates/lanes.ts, lane.ts), as SQLite uses them, gives an answer that the reference model does not
 * give. The reference has rules of its own.
 */
import fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import type { TerminalState } from "../../src/model/job/job-state.ts";
import type * as Lane from "../../src/store/rules/gates/lane-change.ts";
import type * as Lanes from "../../src/store/rules/gates/lanes.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { createHeldPlatform } from "../support/virtual/held-platform.ts";
import type { ChangeKind, Command, JobShape } from "./history-commands.ts";
import { HistoryWorld } from "./history-world.ts";

type Rules = Pick<typeof Lane, "permitChanges" | "isInLine"> & typeof Lanes;

const bent = vi.hoisted(() => ({ by: {} as Partial<Record<string, (...given: never[]) => unknown>> }));

/** The module with the planted bug; what its functions call inside of it stays. */
const bend = vi.hoisted(() => (real: Readonly<Record<string, unknown>>) => {
  const bendable = Object.entries(real).map(([name, rule]) => [
    name,
    (...given: never[]) => (bent.by[name] ?? (rule as (...given: never[]) => unknown))(...given),
  ]);
  return Object.fromEntries(bendable) as Record<string, unknown>;
});
vi.mock("../../src/store/rules/gates/lanes.ts", async (importOriginal) => bend(await importOriginal()));
vi.mock("../../src/store/rules/gates/lane-change.ts", async (importOriginal) => bend(await importOriginal()));

const actual: Rules = {
  ...(await vi.importActual<typeof Lane>("../../src/store/rules/gates/lane-change.ts")),
  ...(await vi.importActual<typeof Lanes>("../../src/store/rules/gates/lanes.ts")),
};

const plain: JobShape = {
  ...{
    given: null,
    digest: 0,
    queue: 0,
    requires: null,
    name: 0,
    dueInMs: 0,
    isInstant: false,
    level: 0,
    slope: 1,
  },
  ...{
    ttlMs: null,
    deadlineInMs: null,
    unique: null,
    tag: null,
    gates: 0,
    lane: 1,
    policy: 0,
    isLarge: false,
  },
};
/** What histories are about. */
interface Focus {
  /** Kinds of lanes (history-world.ts), and their order; null for both. */
  readonly lanes: readonly number[];
  readonly order: 1 | 2 | null;
  /** Whether jobs also have the gate of a limit on their route. */
  readonly routeGates: readonly number[];
  /** The gates that are put, and their caps. */
  readonly gates: readonly number[];
  readonly caps: readonly (number | null)[];
}

const caps = [null, 1, 2, 4];
const all: Focus = {
  lanes: [1, 2, 3, 4, 5, 6, 7, 8],
  order: null,
  routeGates: [0, 0, 0, 1],
  gates: [0, 4, 4, 5],
  caps,
};
const fair: Focus = { ...all, lanes: [3, 4, 6], order: 2, gates: [0] };
const shared: Focus = { ...all, lanes: [8], order: 1, routeGates: [0], gates: [4], caps: [2] };
const limited: Focus = { ...all, lanes: [1, 2], order: 1, routeGates: [0, 1], gates: [0], caps: [1] };

const jobOf = ({ lanes, routeGates }: Focus): fc.Arbitrary<JobShape> =>
  fc
    .record({
      name: fc.nat(1),
      level: fc.constantFrom(-1, 0, 0, 1),
      gates: fc.constantFrom(...routeGates),
      lane: fc.constantFrom(...lanes),
      dueInMs: fc.constantFrom(0, 0, 0, 5),
    })
    .map((given) => ({ ...plain, ...given }));
const finished = fc.record({
  to: fc.constant("finish" as const),
  outcome: fc.constantFrom<TerminalState>("completed", "failed"),
  keepMs: fc.constant(null),
  keepResultMs: fc.constant(null),
  keepsLane: fc.constantFrom(false, false, true),
});
const retried = fc.record({
  to: fc.constant("retry" as const),
  inMs: fc.constantFrom(0, 5),
  counts: fc.constant(1 as const),
  ttlMs: fc.constant(null),
  keepsLane: fc.boolean(),
});
const commandOf = (focus: Focus): fc.Arbitrary<Command> =>
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc
        .array(jobOf(focus), { minLength: 1, maxLength: 4 })
        .map((jobs): Command => ({ do: "submit", units: [{ jobs, docs: [] }] })),
    },
    {
      weight: 5,
      arbitrary: fc
        .record({
          routes: fc.constantFrom<number[]>([0], [2], [0, 2], [0, 2]),
          lanes: focus.order === null ? fc.integer({ min: 1, max: 2 }) : fc.constant(focus.order),
          max: fc.integer({ min: 1, max: 3 }),
        })
        .map((offer): Command => ({
          ...{ do: "claim", owner: 0, leaseMs: 1000, docs: null },
          offers: [{ ...offer, gates: 1, starts: offer.max }],
        })),
    },
    {
      weight: 4,
      arbitrary: fc
        .record({ lease: fc.nat(3), next: fc.oneof(finished, finished, retried) })
        .map((settle): Command => ({ do: "settle", settles: [{ ...settle, fenceShift: 0, effects: null }] })),
    },
    {
      weight: 2,
      arbitrary: fc
        .record({
          job: fc.nat(5),
          kind: fc.constantFrom<ChangeKind>("cancel", "rank", "reschedule", "revoke", "replay"),
          inMs: fc.constantFrom(0, 5),
        })
        .map((change): Command => ({ do: "change", changes: [{ ...change, revShift: null }] })),
    },
    {
      weight: 2,
      arbitrary: fc
        .record({ key: fc.constantFrom(...focus.gates), cap: fc.constantFrom(...focus.caps) })
        .map(({ key, cap }): Command => ({
          ...{
            do: "gate",
            key,
            guard: -1,
            cap,
            stepUs: null,
            closedInMs: null,
            isIntakeClosed: false,
            emptiesRate: false,
          },
        })),
    },
    { weight: 1, arbitrary: fc.constant<Command>({ do: "advance", ms: 5 }) },
    { weight: 1, arbitrary: fc.constant<Command>({ do: "promote", max: 5 }) },
  );

/** What was found in up to this many histories; null for nothing. */
async function findDifference(numRuns: number, focus = all): Promise<string | null> {
  const commandsOf = fc.array(commandOf(focus), { minLength: 20, maxLength: 60 });
  const property = fc.asyncProperty(commandsOf, async (commands) => {
    const platform = createHeldPlatform();
    const store = await openSqliteStore({ path: ":memory:", platform });
    try {
      const { epoch } = await store.describe();
      await new HistoryWorld(store, platform, { epoch, sightings: new Map() }).run(commands);
    } finally {
      await store.close();
    }
  });
  const {
    failed,
    errorInstance,
    numRuns: runs,
  } = await fc.check(property, { numRuns, seed: 28, endOnFailure: true });
  return failed ? `after ${runs} histories: ${String(errorInstance)}` : null;
}

interface Mutant {
  readonly bug: string;
  readonly planted: Partial<Rules>;
  readonly focus?: Focus;
}

const mutants: readonly Mutant[] = [
  {
    bug: "a lane is in order of submit, whatever the rank",
    planted: { isAhead: (one, other) => one.seq < other.seq },
  },
  {
    bug: "lanes are in order of submit",
    planted: { isLaneAhead: (one, other) => one.first.seq < other.first.seq },
  },
  { bug: "lanes by turn go by rank", planted: { positionOf: (_turn, { rank }) => rank } },
  { bug: "a lane that joins is paid for the time without it", planted: { joinTurn: () => 0 }, focus: fair },
  {
    bug: "a lane that was left out for a while catches up",
    planted: { takeTurn: (turn, top, step) => ({ top: Math.max(turn, top), turn: turn + step }) },
    focus: fair,
  },
  {
    bug: "weights do not count",
    planted: { takeTurn: (turn, top) => actual.takeTurn(turn, top, 1) },
    focus: fair,
  },
  {
    bug: "an empty lane that is ahead forgets its turn",
    planted: { forgottenTurn: () => Number.MAX_SAFE_INTEGER },
    focus: fair,
  },
  { bug: "a lane waits at an open gate", planted: { waitsAt: (uses) => uses[0]?.key ?? null } },
  {
    bug: "a lane waits at a gate of its route",
    planted: { refusedAt: ([first = null]) => first },
    focus: limited,
  },
  {
    bug: "a refused lane blocks those that wait for its other keys",
    planted: { leftAt: () => [] },
    focus: shared,
  },
  { bug: "no lane is released", planted: { lanesToRelease: () => 0 } },
  {
    bug: "one lane less than may pass is released",
    planted: { lanesToRelease: (...given) => Math.max(0, actual.lanesToRelease(...given) - 1) },
  },
  {
    bug: "a permit that comes back releases no lane whose jobs have caps of their own",
    planted: { lanesToRelease: (state, now) => actual.lanesToRelease(state, now, true) },
  },
  {
    bug: "permits are taken and never given back by a change of one job",
    planted: {
      permitChanges: (moves) => new Map([...actual.permitChanges(moves)].filter(([, change]) => change > 0)),
    },
  },
  {
    bug: "a job that keeps its lane holds nothing",
    planted: {
      permitChanges: (moves) =>
        actual.permitChanges(
          moves.map(({ from, to }) => ({
            from: from === null ? null : { ...from, keepsLane: 0 },
            to: to === null ? null : { ...to, keepsLane: 0 },
          })),
        ),
    },
  },
  { bug: "a scheduled job is in the line of its lane", planted: { isInLine: ({ state }) => state <= 2 } },
];

afterEach(() => {
  bent.by = {};
});

test("without a bug nothing is found", async () => {
  for (const focus of [all, fair, shared, limited]) expect(await findDifference(20, focus)).toBeNull();
});

test.each(mutants)("it is found that $bug", async ({ planted, focus }) => {
  bent.by = planted as (typeof bent)["by"];
  expect(await findDifference(400, focus)).not.toBeNull();
});
