import { DatabaseSync } from "node:sqlite";
import fc from "fast-check";
import { expect, it } from "vitest";
import {
  aFlow,
  aMember,
  always,
  edgeTo,
  onFailure,
  onSuccess,
  tolerated,
} from "../../../test/contract/cases/flow-jobs.ts";
import { aClaim, aJob, aRoute, aSettle, finish } from "../../../test/support/builders.ts";
import { groupGateKey, groupLane, keyedGate, writeKeyUse } from "../../model/routing/lane.ts";
import { emptyHints } from "../../store/watch/hints.ts";
import type { ClaimRequest, Settle } from "../../store/operations.ts";
import { readEvents } from "../../store/packing/packed-events.ts";
import type { LeasedJob, NewJob } from "../../store/records.ts";
import { promote } from "../../store/rules/promote.ts";
import { claim, leaseGeneral } from "./runs/claim.ts";
import { statementsOf } from "./connection/connection.ts";
import { promoteDue } from "./upkeep/promote.ts";
import { migrate } from "./connection/migrate.ts";
import { configure } from "./connection/open-file.ts";
import { readLive } from "./jobs/job-rows.ts";
import { isScheduled } from "./connection/schema.ts";
import { settleGeneral, settleIfLeased } from "./runs/settle.ts";
import { beginStep, beginCommit, endStep, flushCommit } from "./connection/transaction.ts";
import type { Step } from "./connection/transaction.ts";
import { submitGeneral } from "./jobs/submit-general.ts";
import { submit } from "./jobs/submit.ts";
import { flushTargets } from "./flows/targets.ts";
import { writeOutcome } from "./jobs/write-outcome.ts";

/** One database, on which every call takes the same path. */
function openDatabase() {
  const database = new DatabaseSync(":memory:");
  configure(database, { path: ":memory:", durability: "strict", lockSleepMs: 0 });
  migrate(database, ":memory:");
  const statements = statementsOf(database);
  const call = <A>(now: number, run: (step: Step) => A): A => {
    const commit = beginCommit({ statements, routes: new Map(), epoch: 1, now });
    const step = beginStep(commit);
    const answer = run(step);
    endStep(step, emptyHints());
    flushCommit(commit);
    return answer;
  };
  return { database, call };
}

const tables = [
  "spec",
  "job",
  "history",
  "route",
  "state_count",
  "unique",
  "tag",
  "log",
  "journal",
  "past_key",
  "slip",
  "line",
  "lane",
  "permit",
  "doc",
];
/** Where a lane waits is no part of what is true of it: only a claim that looks at lanes finds out. */
const columnsOf = (table: string): string =>
  table === "lane" ? "number, key, queue, pos, rank, seq, route, timer_at" : "*";

/** Every row of every table, and what was emitted: the feed without the order between jobs, which is free. */
function contentsOf(database: DatabaseSync): unknown {
  const rows = tables.map((table) =>
    database.prepare(`SELECT ${columnsOf(table)} FROM millrace_${table}`).all(),
  );
  const feed = database.prepare("SELECT at, body FROM millrace_feed ORDER BY number").all();
  const emitted = feed.map(({ at, body }) => ({ at, events: readEvents(String(body)).toSorted(byIdAndRev) }));
  return { rows: Object.fromEntries(tables.map((table, at) => [table, rows[at]])), emitted };
}

function byIdAndRev(one: { id: string; rev: number }, other: { id: string; rev: number }): number {
  return one.id === other.id ? one.rev - other.rev : one.id < other.id ? -1 : 1;
}

function claimGenerally(step: Step, { owner, leaseMs, offers }: ClaimRequest, chosen: readonly LeasedJob[]) {
  expect(offers).toHaveLength(1);
  const starts = offers[0]?.starts ?? 0;
  return chosen.map(({ seq }, at) => leaseGeneral(step, seq, { owner, leaseMs, starts: at < starts }));
}

function promoteGenerally(step: Step): void {
  const due = `SELECT seq FROM millrace_job WHERE ${isScheduled} AND due_at <= ? ORDER BY due_at, seq`;
  for (const [seq] of step.statements(due).all(step.now) as [seq: number][]) {
    const row = readLive(step.statements, seq);
    if (row !== null) writeOutcome(step, row, promote(row));
  }
}

const names = ["send", "pack"];
const delay = fc.integer({ min: 0, max: 30 });
const maybe = <A>(value: fc.Arbitrary<A>): fc.Arbitrary<A | null> => fc.option(value, { nil: null, freq: 2 });
const someLane = fc.tuple(fc.constantFrom("one", "two"), fc.constantFrom(1, 3)).map(([key, cap]) => {
  const use = { key: keyedGate(groupGateKey("mail"), key), weight: 1, cap };
  return { laneKey: groupLane("mail", key, "rank"), laneGates: [writeKeyUse(use)] };
});
const anyJob: fc.Arbitrary<Partial<NewJob>> = fc.record({
  name: fc.constantFrom(...names),
  tags: maybe(fc.array(fc.constantFrom("a", "b", "ü 'x\""), { maxLength: 3 })),
  policy: maybe(fc.constantFrom("{}", "p")),
  meta: maybe(fc.string({ maxLength: 4 })),
  due: fc.oneof(fc.constant({ inMs: 0 }), fc.record({ inMs: delay }), fc.record({ at: delay })),
  rankBase: fc.integer({ min: -3, max: 3 }),
  deadline: maybe(fc.record({ inMs: fc.integer({ min: 20, max: 60 }) })),
  ttlMs: maybe(fc.integer({ min: 20, max: 60 })),
  unique: maybe(
    fc.record({
      key: fc.constantFrom("k", "l", "m"),
      hold: fc.oneof(fc.constantFrom("started" as const, "end" as const), fc.integer({ min: 1, max: 40 })),
      onHeld: fc.constantFrom("keep" as const, "replace" as const),
    }),
  ),
});
const newJob = fc.tuple(anyJob, maybe(someLane)).map(([job, lane]): Partial<NewJob> => ({ ...job, ...lane }));
const edgeKinds = [onSuccess, onFailure, always, tolerated];
/** Nodes of a flow: each comes behind some of those before it. */
const newNodes = fc.array(
  fc.record({
    job: newJob,
    parents: fc.uniqueArray(fc.nat({ max: 3 }), { maxLength: 3 }),
    by: fc.constantFrom(...edgeKinds),
    need: fc.integer({ min: 1, max: 2 }),
    slack: fc.nat({ max: 1 }),
    defers: fc.boolean(),
  }),
  { minLength: 1, maxLength: 6 },
);
type Nodes = typeof newNodes extends fc.Arbitrary<infer A> ? A : never;

/** One node, many that are alike behind it, and one behind all of them. */
const fanNodes = fc
  .record({
    job: newJob,
    width: fc.integer({ min: 8, max: 80 }),
    by: fc.constantFrom(...edgeKinds),
    slack: fc.nat({ max: 1 }),
  })
  .map(({ job, width, by, slack }): Nodes => {
    const node = { by, need: 1, slack, defers: false };
    const tagsOfOwn = (): Partial<NewJob> => (job.tags ? { ...job, tags: [...job.tags] } : job);
    const middle = Array.from({ length: width }, () => ({ ...node, job: tagsOfOwn(), parents: [0] }));
    const all = middle.map((_, at) => at + 1);
    return [{ ...node, job: {}, parents: [] }, ...middle, { ...node, job, parents: all, need: width }];
  });

function flowJobs(id: string, nodes: Nodes): NewJob[] {
  const parentsOf = nodes.map(({ parents }, at) => parents.filter((parent) => parent < at));
  const members = nodes.map(({ job: { unique: _unique, ...job }, need, slack, defers }, at) => {
    const to = nodes.flatMap(({ by }, child) =>
      parentsOf[child]?.includes(at) === true ? [edgeTo(`n${child}`, by)] : [],
    );
    const wanted = Math.min(need, parentsOf[at]?.length ?? 0);
    const placed = { flow: id, to, need: wanted, slack, ...(defers ? { defers: 1 as const } : {}) };
    return aMember("", { ...job, ...placed, id: `${id}.n${at}` });
  });
  return [aFlow(nodes.length, { id }), ...members];
}

const ending = fc.record({
  to: fc.constantFrom("completed" as const, "failed" as const, "skipped" as const),
  reason: maybe(fc.constantFrom("because", "x\0y")),
  result: maybe(fc.constantFrom("1", "\0", "ü\ud83d\ude42")),
  keepMs: maybe(fc.constantFrom(0, 50)),
  attempts: maybe(fc.constantFrom('{"entries":[]}', "1 20 3", "\0")),
});
const command = fc.oneof(
  fc.record({
    kind: fc.constant("submit" as const),
    jobs: fc.array(newJob, { minLength: 1, maxLength: 12 }),
  }),
  fc.record({
    kind: fc.constant("claim" as const),
    max: fc.constantFrom(1, 3, 12, 90),
    routes: fc.integer({ min: 1, max: 2 }),
    isByLanes: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant("settle" as const),
    endings: fc.oneof(
      fc.array(ending, { minLength: 1, maxLength: 12 }),
      ending.map((same) => Array.from({ length: 70 }, () => same)),
    ),
  }),
  fc.record({ kind: fc.constant("promote" as const), waitMs: delay }),
  fc.record({ kind: fc.constant("flow" as const), nodes: fc.oneof(newNodes, fanNodes) }),
);

it("the same jobs by either path leave the same rows and emit the same", () => {
  fc.assert(
    fc.property(fc.array(command, { minLength: 2, maxLength: 12 }), (commands) => {
      const plain = openDatabase();
      const general = openDatabase();
      let now = 1000;
      let made = 0;
      let held: LeasedJob[] = [];
      const submitBoth = (jobs: readonly NewJob[]): void => {
        plain.call(now, (step) => submit(step, [{ jobs }]));
        general.call(now, (step) => {
          for (const job of jobs) {
            submitGeneral(step, job, { isRepeat: false, isRefused: false });
            step.commit.insert.flush();
          }
        });
      };
      for (const each of commands) {
        switch (each.kind) {
          case "submit": {
            const jobs = each.jobs.map((given) =>
              aJob({ ...given, id: `job-${String(made++).padStart(4, "0")}` }),
            );
            submitBoth(jobs);
            break;
          }
          case "claim": {
            const lane = each.isByLanes ? { laneKey: "any" } : {};
            const routes = names.slice(0, each.routes).map((name) => aRoute({ name, ...lane }));
            const request = aClaim({ offers: [{ routes, max: each.max, starts: 2 }], leaseMs: 500 });
            const { jobs } = plain.call(now, (step) => claim(step, request));
            // The gates of keys are answered by what looks at lanes, whichever path leases.
            const leased = jobs.map(({ keyGates: _gates, ...job }) => job);
            expect(general.call(now, (step) => claimGenerally(step, request, jobs))).toEqual(leased);
            held.push(...jobs);
            break;
          }
          case "settle": {
            const settles = each.endings.flatMap(({ to, attempts, ...given }, at): Settle[] => {
              const lease = held[at];
              return lease === undefined ? [] : [aSettle(lease, finish(to, given), { attempts })];
            });
            held = held.slice(settles.length);
            const answers = plain.call(now, (step) => settleIfLeased(step, settles));
            const one = (step: Step): unknown => {
              const given = settles.map((settle) => settleGeneral(step, settle));
              flushTargets(step);
              return given;
            };
            expect(general.call(now, one)).toEqual(answers);
            break;
          }
          case "flow": {
            submitBoth(flowJobs(`flow-${String(made++).padStart(4, "0")}`, each.nodes));
            break;
          }
          case "promote":
            now += each.waitMs;
            plain.call(now, (step) => promoteDue(step, { max: 1000 }));
            general.call(now, promoteGenerally);
        }
        expect(contentsOf(plain.database)).toEqual(contentsOf(general.database));
      }
      plain.database.close();
      general.database.close();
    }),
    { numRuns: 100 },
  );
});

it("jobs that follow each other and differ in id and input only leave what they leave one by one, whoever comes between", () => {
  const due = { inMs: 0 };
  const later = { inMs: 20 };
  const tags = ["a", "b"];
  let made = 0;
  const some = (count: number, given: Partial<NewJob>): NewJob[] =>
    Array.from({ length: count }, () => {
      made += 1;
      return aJob({ due, id: `job-${String(made).padStart(5, "0")}`, input: `"${made}"`, ...given });
    });
  const mixed = [
    ...some(10, {}),
    ...some(3, { policy: "{}" }),
    ...some(9, {}),
    ...some(1, { id: "given", digest: "one" }),
    ...some(2, { due: later }),
    ...some(1030, { due: later }),
    ...some(12, { tags }),
    ...some(8, { tags, ttlMs: 5 }),
    ...some(1, {}),
  ];
  // Its second job has the id of another one with another input, so nothing of it stays.
  const refused = [...some(2, {}), ...some(1, { id: "given", digest: "other" })];
  const behind = some(9, {});
  const units = [mixed, some(1, {}), refused, behind.slice(0, 1), behind.slice(1)].map((jobs) => ({ jobs }));
  const together = openDatabase();
  const answers = together.call(1000, (step) => submit(step, units));
  expect(answers.map(({ kind }) => kind)).toEqual(["ok", "ok", "refused", "ok", "ok"]);
  const singly = openDatabase();
  singly.call(1000, (step) => {
    for (const { jobs } of units.filter((unit) => unit.jobs !== refused))
      for (const job of jobs) {
        submitGeneral(step, job, { isRepeat: false, isRefused: false });
        step.commit.insert.flush();
      }
  });
  expect(contentsOf(together.database)).toEqual(contentsOf(singly.database));
  together.database.close();
  singly.database.close();
});

/** The logs of jobs that end together, and the order in which they are settled. */
const loggedEnds: readonly (readonly [
  what: string,
  ends: readonly Partial<Settle>[],
  order: "asc" | "desc",
])[] = [
  ["in order", logged("1 20 3"), "asc"],
  ["in another order", logged("1 20 3"), "desc"],
  ["with JSON in them", logged('{"entries":[{"a":"ü\ud83d\ude42 \\\\ \\n"}]}\n\t'), "asc"],
  ["with what JSON escapes", logged("a\0b\ud800c\x01"), "asc"],
  ["some of them without", logged("1 20 3").with(7, { attempts: null }), "asc"],
  ["one of them left out", logged("1 20 3").with(7, {}), "asc"],
  [
    "one of them with a result",
    logged("1 20 3").with(7, { next: finish("completed", { result: "7" }) }),
    "asc",
  ],
];

function logged(log: string): Partial<Settle>[] {
  return Array.from({ length: 20 }, (_, at) => ({ attempts: `${log}${at}` }));
}

it.for(loggedEnds)(
  "jobs that end together with their logs, %s, leave what they leave one by one",
  ([, ends, order]) => {
    const [plain, general] = [openDatabase(), openDatabase()];
    const claiming = aClaim({ offers: [{ routes: [aRoute()], max: ends.length }] });
    const settled = [plain, general].map(({ call }) => {
      const jobs = ends.map((_, at) => aJob({ id: `job-${String(at).padStart(2, "0")}` }));
      call(1000, (step) => submit(step, [{ jobs }]));
      const claimed = call(1000, (step) => claim(step, claiming)).jobs;
      return claimed.flatMap((lease, at): Settle[] => {
        const given = ends[at] ?? {};
        return Object.keys(given).length === 0 ? [] : [aSettle(lease, finish("completed"), given)];
      });
    });
    const settles = order === "asc" ? settled[0] : settled[0]?.toReversed();
    plain.call(2000, (step) => settleIfLeased(step, settles ?? []));
    general.call(2000, (step) => settles?.forEach((settle) => settleGeneral(step, settle)));
    expect(contentsOf(plain.database)).toEqual(contentsOf(general.database));
    plain.database.close();
    general.database.close();
  },
);

it("a job that is settled twice in one call, plainly and otherwise, ends once", () => {
  const { database, call } = openDatabase();
  call(1000, (step) => submit(step, [{ jobs: [aJob({ id: "one" }), aJob({ id: "two" })] }]));
  const { jobs } = call(1000, (step) => claim(step, aClaim({ offers: [{ routes: [aRoute()], max: 2 }] })));
  const [one, two] = jobs as [LeasedJob, LeasedJob];
  const settles = [
    aSettle(one, finish("completed")),
    aSettle(two, finish("completed")),
    aSettle(one, { ...finish("completed"), keepResultMs: 10, result: '"other"' }),
  ];
  const answers = call(1000, (step) => settleIfLeased(step, settles));
  expect(answers.map(({ kind }) => kind)).toEqual(["ok", "ok", "already"]);
  expect(database.prepare("SELECT id, result FROM millrace_history ORDER BY seq").all()).toEqual([
    { id: "one", result: null },
    { id: "two", result: null },
  ]);
  database.close();
});
