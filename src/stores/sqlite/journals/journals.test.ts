/**
 * Random work on journals of a few durable runs, on SQLite and on the reference model side by side: every answer, every
 * journal after each step, and in the end the feed are compared.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { closeAfterEach } from "../../../../test/support/close-after-each.ts";
import {
  aClaim,
  aDoc,
  aJob,
  askCancel,
  aSettle,
  finish,
  handBack,
  remove,
  replay,
  schedule,
} from "../../../../test/support/builders.ts";
import { openReference } from "../../../../test/support/stores/reference-as-store.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { readAllDue, readAllDueDocs, readWholeFeed } from "../../../../test/support/walk.ts";
import { durableMarks } from "../../../model/durable/durable-marks.ts";
import type { SettleNext, Suspend, Update } from "../../../model/job/change.ts";
import { liveStates, terminalStates, waitingStates } from "../../../model/job/job-state.ts";
import { storeLimits } from "../../../store/contract-limits.ts";
import type { ChangeCase, Clock } from "../../../store/operations.ts";
import type { EntryPut, LeaseRef } from "../../../store/records.ts";
import type { Store } from "../../../store/store.ts";
import { openSqliteStore } from "../sqlite-store.ts";

const closing = closeAfterEach();

async function openPair() {
  const platform = createHeldPlatform();
  const store = closing(await openSqliteStore({ path: ":memory:", platform }));
  const { epoch } = await store.describe();
  return { platform, store, reference: openReference(platform, epoch) };
}

const ids = ["r0", "r1", "r2"];
const clocks: readonly Clock[] = ["lease", "attempt", "deadline", "ttl", "wake"];
const signalled: Update = { to: "same", event: "signalled" };
const suspend = (inMs: number | null): Suspend => ({
  to: "suspended",
  event: "suspended",
  wake: inMs === null ? null : { inMs },
  countsAttempt: 0,
});

const which = fc.nat({ max: ids.length - 1 });
const entry = fc
  .record(
    {
      key: fc.constantFrom("a", "b", "c", "d", "e"),
      body: fc.constantFrom("one", "two"),
      marks: fc.constantFrom(durableMarks.hasUndo, durableMarks.isEnding, durableMarks.hasChildren),
      unread: fc.constantFrom(1, 5),
      reads: fc.array(fc.integer({ min: 1, max: 6 }), { maxLength: 3 }),
    },
    { requiredKeys: ["key", "body"] },
  )
  .map((put): EntryPut => put);
const entries = fc.array(entry, { maxLength: 3 });
const effects = fc.constantFrom(
  { jobs: [aJob({ id: "child", digest: "d" })] },
  { docs: [aDoc("doc", "x")] },
  { docs: [aDoc("other", "x", { guard: { version: 99 } })] },
);
const write = fc.record(
  {
    run: which,
    entries,
    effects,
    setsBack: fc.constant(true as const),
    progress: fc.constant("half"),
    logs: fc.constant(["line"]),
  },
  { requiredKeys: ["run"] },
);
const nexts: readonly SettleNext[] = [
  suspend(null),
  suspend(10),
  finish(),
  finish("failed", { keepMs: 0 }),
  schedule(0),
  schedule(0, { newRound: true }),
  handBack,
];
const settled = fc.record({
  run: which,
  next: fc.constantFrom(...nexts),
  /** Beside the last number. */
  seen: fc.constantFrom(null, -1, 0, 0, 0, 1),
  entries,
  effects: fc.option(effects, { nil: undefined, freq: 6 }),
});
const guards: readonly ChangeCase[] = [
  { guard: { states: liveStates }, next: signalled },
  { guard: { states: ["suspended"] }, next: { to: "ready", event: "resumed", countsAttempt: 0 } },
  {
    guard: { states: ["suspended"], rang: "wake" },
    next: { to: "ready", event: "resumed", countsAttempt: 0 },
  },
  { guard: { states: liveStates, marks: { mask: durableMarks.hasUndo, is: 0 } }, next: signalled },
  { guard: { states: waitingStates }, next: finish("cancelled") },
  { guard: { states: ["running"] }, next: askCancel },
  { guard: { states: terminalStates }, next: replay(0, { newRound: true }) },
  { guard: { states: terminalStates }, next: remove },
];
const changed = fc.record({
  run: which,
  cases: fc.array(
    fc.record({
      by: fc.constantFrom(...guards),
      entry: fc.option(entry, { nil: null }),
      unreadMax: fc.option(fc.constantFrom({ count: 1, size: 9 }, { count: 9, size: 6 }), { nil: undefined }),
    }),
    { minLength: 1, maxLength: 3 },
  ),
  token: fc.option(fc.constantFrom("t", "u"), { nil: undefined }),
});
const act = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("claim" as const) }) },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant("record" as const), writes: fc.array(write, { maxLength: 4 }) }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("settle" as const), settled }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("change" as const), changed }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 40 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("extend" as const), seen: fc.nat({ max: 4 }) }) },
);
type Act = typeof act extends fc.Arbitrary<infer A> ? A : never;

/** Asks both stores, and answers what both have answered. */
type Both = <Answer>(what: string, call: (store: Store) => Promise<Answer>) => Promise<Answer>;

/** The leases that were handed out last, by id; they may be over. */
type Leases = Map<string, LeaseRef>;

async function play(both: Both, leases: Leases, given: Act): Promise<unknown> {
  const leaseOf = (run: number): LeaseRef =>
    leases.get(ids[run] as string) ?? { id: "none", seq: 9, fence: 1 };
  switch (given.kind) {
    case "claim": {
      const { jobs } = await both("a claim", (store) => store.claim(aClaim({ leaseMs: 100 })));
      for (const { id, seq, fence } of jobs) leases.set(id, { id, seq, fence });
      return undefined;
    }
    case "record": {
      const writes = given.writes.map(({ run, ...asked }) => ({ ...leaseOf(run), ...asked }));
      return both("a record", (store) => store.recordIfLeased(writes));
    }
    case "settle": {
      const { run, next, seen, entries: puts, effects: with_ } = given.settled;
      const lease = leaseOf(run);
      const [read] = await both("its journal", (store) =>
        store.readJournal([{ id: lease.id, after: 0, max: 1 }]),
      );
      const last = read?.kind === "ok" ? read.last : 0;
      const journal = { seen: seen === null ? null : last + seen, entries: puts };
      const settle = aSettle(lease, next, { journal, ...(with_ === undefined ? {} : { effects: with_ }) });
      return both("a settle", (store) => store.settleIfLeased([settle]));
    }
    case "change": {
      const { run, cases, token } = given.changed;
      const asked = cases.map(({ by, entry: put, unreadMax }): ChangeCase => {
        if (put === null) return by;
        return { ...by, append: { entry: put, ...(unreadMax === undefined ? {} : { unreadMax }) } };
      });
      const change = { id: ids[run] as string, cases: asked, ...(token === undefined ? {} : { token }) };
      return both("a change", (store) => store.changeIf([change]));
    }
    case "wait":
      return undefined;
    case "extend": {
      const asked = [...leases.values()].map((lease) => ({ ...lease, seen: given.seen }));
      const request = { owner: "w1", leaseMs: 100, leases: asked, wantsOthers: true };
      return both("an extension", (store) => store.extendIfLeased(request));
    }
  }
}

test("journals are answered as the reference model answers them", async () => {
  const met = new Map<string, number>();
  const property = fc.asyncProperty(fc.array(act, { maxLength: 40, size: "max" }), async (acts) => {
    const { platform, store, reference } = await openPair();
    const both: Both = async (what, call) => {
      const [mine, expected] = [await call(store), await call(reference)];
      expect(mine, what).toEqual(expected);
      return mine;
    };
    const leases: Leases = new Map();
    for (const given of acts) {
      const known = await both("the jobs", (each) => each.readJobs(ids));
      const missing = ids.filter((_, at) => known[at] === null);
      const units = missing.map((id) => ({ jobs: [aJob({ id, deadline: { inMs: 500 } })] }));
      if (units.length > 0) await both("a submit", (each) => each.submit(units));
      if (given.kind === "wait") platform.advance(given.ms);
      const answers = await play(both, leases, given);
      for (const answer of Array.isArray(answers) ? (answers as unknown[]) : []) {
        const kind = `${given.kind} ${typeof answer === "object" ? (answer as { kind: string }).kind : String(answer)}`;
        met.set(kind, (met.get(kind) ?? 0) + 1);
      }
      const reads = ids.flatMap((id) => [
        { id, after: 0, max: 99 },
        { id, after: 1, max: 2, lease: leases.get(id) ?? { seq: 1, fence: 1 } },
      ]);
      await both("the journals", (each) => each.readJournal(reads));
      await both("the jobs after it", (each) => each.readJobs([...ids, "child"]));
      for (const clock of clocks) await both(`the due of ${clock}`, (each) => readAllDue(each, clock));
      await both("the due documents", (each) => readAllDueDocs(each));
    }
    expect(await readWholeFeed(store)).toEqual(await readWholeFeed(reference));
  });
  await fc.assert(property, { numRuns: 150 });
  const wanted = ["record appended", "record stale", "record doc-changed", "settle ok", "settle arrived"];
  const refused = ["settle stale", "settle cancel-asked", "change ok", "change repeated", "change full"];
  expect([...wanted, ...refused].filter((kind) => (met.get(kind) ?? 0) < 3)).toEqual([]);
}, 600_000);

/** Begins a new round of the job by a replay. */
const newRound = { guard: { states: terminalStates }, next: replay(0, { newRound: true }) };
const cancel = { guard: { states: waitingStates }, next: finish("cancelled") };

test("the keys of others are refused over rounds, the newest of them", async () => {
  const { store } = await openPair();
  const { journalKeysKeptMax: max } = storeLimits;
  await store.submit([{ jobs: [aJob({ id: "r0" })] }]);
  const append = async (key: string): Promise<string | undefined> => {
    const put = { entry: { key, body: "x" } };
    const [answer] = await store.changeIf([
      { id: "r0", cases: [{ guard: { states: liveStates }, next: signalled, append: put }] },
    ]);
    return answer?.kind;
  };
  for (let at = 0; at < max; at++) await append(`k${at}`);
  const beginRound = async (): Promise<void> => {
    await store.changeIf([{ id: "r0", cases: [cancel] }]);
    expect(await store.changeIf([{ id: "r0", cases: [newRound] }])).toMatchObject([{ kind: "ok" }]);
  };
  await beginRound();
  expect(await append("k0")).toBe("repeated");
  expect(await append("new")).toBe("ok");
  await beginRound();
  expect(await append("k0")).toBe("ok");
  expect(await append("k1")).toBe("repeated");
  expect(await append("new")).toBe("repeated");
}, 60_000);

test("a page of large entries ends early, and what is left follows one by one", async () => {
  const { store } = await openPair();
  await store.submit([{ jobs: [aJob({ id: "r0" }), aJob({ id: "r1" })] }]);
  const { jobs } = await store.claim(aClaim());
  const body = "x".repeat(2 ** 20);
  for (const { id, seq, fence } of jobs)
    for (const place of Array(80).keys())
      await store.recordIfLeased([{ id, seq, fence, entries: [{ key: `k${place}`, body }] }]);
  const read = async (after: number) => {
    const reads = jobs.map(({ id, seq, fence }) => ({ id, after, max: 100, lease: { seq, fence } }));
    const answers = await store.readJournal(reads);
    return answers.map((answer) => (answer.kind === "ok" ? answer.entries.map(({ number }) => number) : []));
  };
  const [first = [], second = []] = await read(0);
  expect(first.length).toBeLessThan(80);
  expect(first).toEqual([...first.keys()].map((at) => at + 1));
  expect(second).toEqual([1]);
});
