/** Journals of durable runs: who may append what (R2), what an entry changes in its job, and how they are read. */
import fc from "fast-check";
import { expect } from "vitest";
import { guardOfRound } from "../../../../src/model/durable/durable-marks.ts";
import { storeLimits } from "../../../../src/store/contract-limits.ts";
import type { Change, Guard, LeasedWrite } from "../../../../src/store/operations.ts";
import type { EntryPut, LeasedJob } from "../../../../src/store/records.ts";
import type { Hint } from "../../../../src/store/store.ts";
import {
  aChange,
  aDoc,
  aJob,
  aRoute,
  aSettle,
  askCancel,
  finish,
  handBack,
  remove,
  replay,
  schedule,
} from "../../../support/builders.ts";
import { hardText } from "../../../support/hard-text.ts";
import { startAt } from "../../../support/virtual/held-platform.ts";
import { pruneAll, readAllDue } from "../../../support/walk.ts";
import type { ContractGroup } from "../../subject.ts";
import { aFlow, aMember, deferred } from "../flow-jobs.ts";
import {
  anAppend,
  anEntry,
  aRecord,
  aSignal,
  hasChildren,
  hasJournal,
  hasUndo,
  inRound,
  isEnding,
  journalOf,
  keysOf,
  leaseOf,
  signalled,
  suspend,
} from "./journal-calls.ts";

export const signalHintTitle =
  "the owner of a running job hears that its journal has grown, and nobody else's";

/** Different texts of the characters that stores join with or escape. */
function hardTexts(count: number): readonly string[] {
  const drawn = fc.sample(hardText, { numRuns: count * 4, seed: 1 }).map((text) => text.toWellFormed());
  return [...new Set(drawn)].slice(0, count);
}

const room = { count: 3, size: 10 };
const refused = (kind: "repeated" | "full" | "changed", state: string, rev: number): object => ({
  kind,
  state,
  rev,
});

export const journalCases: ContractGroup = {
  about: "journals",
  cases: [
    [
      "however many entries one call appends, each has the number, the time, the key and the body that it was given",
      async ({ store, lease, platform }) => {
        const runs = [await lease(aJob({ id: "a" })), await lease(aJob({ id: "b" }))];
        platform.advance(7);
        const keys = Array.from({ length: 40 }, (_, at) => `k${at}`);
        await store.recordIfLeased(runs.map((run) => aRecord(run, ...keys.map((key) => anEntry(key)))));
        const wanted = keys.map((key, at) => ({
          ...{ number: at + 1, at: startAt + 7, key, body: `body of ${key}` },
        }));
        expect(await journalOf(store, "a")).toEqual(wanted);
        expect(await journalOf(store, "b")).toEqual(wanted);
      },
    ],
    [
      "entries are numbered from 1 on without gaps, each with the time at which it was accepted",
      async ({ store, lease, platform, read, events }) => {
        const leased = await lease(aJob({ id: "a" }));
        expect(await store.recordIfLeased([aRecord(leased, anEntry("one"), anEntry("two"))])).toEqual([
          { kind: "appended", last: 2, at: startAt },
        ]);
        platform.advance(7);
        expect(await store.recordIfLeased([aRecord(leased, anEntry("three"))])).toEqual([
          { kind: "appended", last: 3, at: startAt + 7 },
        ]);
        expect(await journalOf(store, "a")).toEqual([
          { number: 1, at: startAt, key: "one", body: "body of one" },
          { number: 2, at: startAt, key: "two", body: "body of two" },
          { number: 3, at: startAt + 7, key: "three", body: "body of three" },
        ]);
        expect(await read("a")).toMatchObject({ rev: 2, durable: hasJournal, state: "running" });
        expect(await events("a")).toHaveLength(2);
      },
    ],
    [
      "a write whose reply was lost is repeated: known keys are passed over, and the first body stays",
      async ({ store, lease, platform }) => {
        const leased = await lease(aJob({ id: "a" }));
        const write = aRecord(leased, anEntry("one"), anEntry("two"));
        await store.recordIfLeased([write]);
        platform.advance(3);
        const changed = aRecord(leased, anEntry("two", { body: "other" }), anEntry("three"));
        expect(await store.recordIfLeased([write, changed, write])).toEqual([
          { kind: "appended", last: 2, at: startAt + 3 },
          { kind: "appended", last: 3, at: startAt + 3 },
          { kind: "appended", last: 3, at: startAt + 3 },
        ]);
        expect(await journalOf(store, "a")).toMatchObject([
          { number: 1, at: startAt, key: "one" },
          { number: 2, at: startAt, body: "body of two" },
          { number: 3, at: startAt + 3, key: "three" },
        ]);
      },
    ],
    [
      "a key that comes twice in one write is accepted once",
      async ({ store, lease }) => {
        const leased = await lease(aJob({ id: "a" }));
        const twice = [anEntry("one"), anEntry("one", { body: "other" }), anEntry("two"), anEntry("one")];
        expect(await store.recordIfLeased([aRecord(leased, ...twice)])).toMatchObject([{ last: 2 }]);
        expect((await journalOf(store, "a")).map(({ body }) => body)).toEqual(["body of one", "body of two"]);
      },
    ],
    [
      "a write under an old fence, another seq or no lease is stale or gone, and harms no other",
      async ({ store, submit, claim }) => {
        await submit(...["a", "b", "c"].map((id) => aJob({ id })));
        const [a, b] = (await claim({ max: 2 })) as [LeasedJob, LeasedJob];
        await store.settleIfLeased([aSettle(b, finish())]);
        const answers = await store.recordIfLeased([
          aRecord({ ...a, fence: a.fence - 1 }, anEntry("x")),
          aRecord({ ...a, fence: a.fence + 1 }, anEntry("x")),
          aRecord({ ...a, seq: b.seq }, anEntry("x")),
          aRecord(b, anEntry("x")),
          aRecord({ id: "c", seq: 3, fence: 0 }, anEntry("x")),
          aRecord({ id: "ghost", seq: 9, fence: 1 }, anEntry("x")),
          aRecord(a, anEntry("fine")),
        ]);
        const stale = Array.from({ length: 5 }, () => "stale");
        expect(answers).toEqual([...stale, "gone", { kind: "appended", last: 1, at: startAt }]);
        expect([await keysOf(store, "a"), await keysOf(store, "b"), await keysOf(store, "c")]).toEqual([
          ["fine"],
          [],
          [],
        ]);
      },
    ],
    [
      "progress, log lines and entries of one write are all applied, and log lines are a list of their own",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        const write = { ...aRecord(leased, anEntry("one")), progress: "half", logs: ["line"] };
        expect(await store.recordIfLeased([write])).toMatchObject([{ kind: "appended", last: 1 }]);
        expect((await read("a")).progress).toBe("half");
        expect((await store.readLogs({ id: "a", after: 0, max: 9 })).lines).toMatchObject([
          { number: 1, body: "line" },
        ]);
        expect(await keysOf(store, "a")).toEqual(["one"]);
      },
    ],
    [
      "a write of no entries appends nothing, and the job has no journal after it",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        expect(await store.recordIfLeased([aRecord(leased)])).toEqual([
          { kind: "appended", last: 0, at: startAt },
        ]);
        const journal = { seen: 0, entries: [] };
        await store.settleIfLeased([aSettle(leased, schedule(0), { journal })]);
        expect((await read("a")).durable).toBe(0);
        expect(await journalOf(store, "a")).toEqual([]);
      },
    ],
    [
      "a job tells with its claim, its read and its due clock what its journal has set",
      async ({ store, lease, claim, read, platform }) => {
        const leased = await lease(aJob({ id: "a" }));
        expect(leased.durable).toBe(0);
        await store.recordIfLeased([aRecord(leased, anEntry("one", { marks: hasUndo }))]);
        await store.recordIfLeased([aRecord(leased, anEntry("two"))]);
        expect((await read("a")).durable).toBe(hasJournal + hasUndo);
        platform.advance(1000);
        expect(await readAllDue(store, "lease")).toMatchObject([{ id: "a", durable: hasJournal + hasUndo }]);
        await store.settleIfLeased([aSettle(leased, handBack)]);
        expect(await claim()).toMatchObject([{ id: "a", durable: hasJournal + hasUndo }]);
        const { others } = await store.extendIfLeased({
          ...{ owner: "w1", leaseMs: 1000, leases: [], wantsOthers: true },
        });
        expect(others).toMatchObject([{ id: "a", durable: hasJournal + hasUndo }]);
      },
    ],
    [
      "an entry that is passed over sets no mark and reads nothing",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a", deadline: { inMs: 900 } }));
        await store.changeIf([anAppend("a", aSignal("s"), room)]);
        await store.recordIfLeased([aRecord(leased, anEntry("one"))]);
        await store.recordIfLeased([
          aRecord(leased, anEntry("one", { marks: hasUndo | isEnding, reads: [1] })),
        ]);
        expect(await read("a")).toMatchObject({ durable: hasJournal, deadlineAt: startAt + 900 });
        const [answer] = await store.changeIf([anAppend("a", aSignal("t"), { count: 1, size: 10 })]);
        expect(answer?.kind).toBe("full");
      },
    ],
    [
      "an entry that begins the ending clears the deadline and a requested cancel, so that the run may wait again",
      async ({ store, lease, claim, read, platform }) => {
        const leased = await lease(aJob({ id: "a", deadline: { inMs: 50 } }));
        await store.changeIf([aChange("a", ["running"], askCancel)]);
        const waits = aSettle(leased, schedule(0), { journal: { seen: null, entries: [] } });
        expect(await store.settleIfLeased([waits])).toEqual([{ kind: "cancel-asked" }]);
        const ending = anEntry("ending", { marks: isEnding });
        expect(await store.recordIfLeased([aRecord(leased, ending)])).toMatchObject([{ last: 1 }]);
        expect(await read("a")).toMatchObject({
          ...{ deadlineAt: null, cancelAsked: false, durable: hasJournal + isEnding, rev: 3 },
        });
        platform.advance(60);
        expect(await readAllDue(store, "deadline")).toEqual([]);
        expect(await store.settleIfLeased([waits])).toEqual([{ kind: "ok" }]);
        expect(await claim()).toMatchObject([{ id: "a", durable: hasJournal + isEnding }]);
      },
    ],
    [
      "an ending that a duty appends clears the deadline of a waiting and of a running job in the same step",
      async ({ store, submit, claim, lease, read, platform }) => {
        await lease(aJob({ id: "r", name: "other", deadline: { inMs: 50 } }), { leaseMs: 9000 });
        await submit(aJob({ id: "w", deadline: { inMs: 50 } }));
        platform.advance(60);
        expect((await readAllDue(store, "deadline")).map(({ id }) => id)).toEqual(["r", "w"]);
        const entry = anEntry("ending", { marks: isEnding });
        const end = (id: string, next = signalled as Change["cases"][number]["next"]): Change => ({
          id,
          cases: [{ guard: { states: ["ready", "running"], rang: "deadline" }, next, append: { entry } }],
        });
        expect(await store.changeIf([end("w"), end("r", schedule(0, { event: "reclaimed" }))])).toMatchObject(
          [
            { kind: "ok", state: "ready", rev: 1 },
            { kind: "ok", from: "running", state: "ready", rev: 3 },
          ],
        );
        expect(await readAllDue(store, "deadline")).toEqual([]);
        for (const id of ["w", "r"]) expect(await read(id)).toMatchObject({ deadlineAt: null, durable: 5 });
        const routes = [aRoute(), aRoute({ name: "other" })];
        expect((await claim({ offers: [{ routes, max: 5 }] })).map(({ id }) => id)).toEqual(["w", "r"]);
      },
    ],
    [
      "a guard by marks holds iff the bits of its mask are as it says",
      async ({ store, lease }) => {
        const leased = await lease(aJob({ id: "a" }));
        const edited = (marks: Guard["marks"]): Change =>
          aChange("a", ["running"], { to: "same", event: "edited" }, { ...(marks && { marks }) });
        const both = hasUndo | isEnding;
        const asks = [
          { mask: both, is: 0 },
          { mask: hasUndo, is: hasUndo },
          { mask: both, is: hasUndo },
        ];
        const kinds = async (): Promise<readonly string[]> =>
          (await store.changeIf(asks.map(edited))).map(({ kind }) => kind);
        expect(await kinds()).toEqual(["ok", "changed", "changed"]);
        await store.recordIfLeased([aRecord(leased, anEntry("one", { marks: hasUndo }))]);
        expect(await kinds()).toEqual(["changed", "ok", "ok"]);
        await store.recordIfLeased([aRecord(leased, anEntry("two", { marks: isEnding }))]);
        expect(await kinds()).toEqual(["changed", "ok", "changed"]);
      },
    ],
    [
      "a run with children leaves deferred work when it ends or is deleted, whoever ends it",
      async ({ store, submit, claim }) => {
        const ids = ["a settle", "a settle that keeps nothing", "an operator", "a deletion", "none", "anew"];
        await submit(...ids.map((id) => aJob({ id })));
        const jobs = await claim();
        const [settled, unkept, , , none, anew] = jobs as LeasedJob[];
        const entryOf = (id: string): EntryPut => anEntry("one", { marks: id === "none" ? 0 : hasChildren });
        await store.recordIfLeased(jobs.map((job) => aRecord(job, entryOf(job.id))));
        const journal = { seen: 1, entries: [] };
        await store.settleIfLeased([
          aSettle(jobs[2]!, suspend(), { journal }),
          aSettle(jobs[3]!, suspend(), { journal }),
          aSettle(anew!, schedule(0, { newRound: true }), { journal }),
        ]);
        expect(await deferred(store)).toEqual([]);
        const [again] = await claim();
        expect(again).toMatchObject({ id: "anew", durable: inRound(1, hasJournal) });
        expect(
          await store.settleIfLeased([
            aSettle(settled!, finish("failed"), { journal }),
            aSettle(unkept!, finish("completed", { keepMs: 0 }), { journal }),
            aSettle(none!, finish(), { journal }),
            aSettle(again!, finish(), { journal: { seen: 0, entries: [] } }),
          ]),
        ).toEqual(Array.from({ length: 4 }, () => ({ kind: "ok" })));
        const marks = { mask: hasChildren, is: hasChildren };
        const ends = [
          aChange("an operator", ["suspended"], finish("cancelled"), { marks }),
          aChange("a deletion", ["suspended"], remove, { marks }),
        ];
        expect(await store.changeIf(ends)).toMatchObject([{ kind: "ok" }, { kind: "ok" }]);
        expect(await deferred(store)).toEqual(ids.slice(0, 4).toSorted());
      },
    ],
    [
      "a guard by round holds whatever the marks are, in this round alone",
      async ({ store, lease, claim }) => {
        const leased = await lease(aJob({ id: "a" }));
        const edited = (round: number): Change =>
          aChange("a", ["running"], { to: "same", event: "edited" }, { marks: guardOfRound(round) });
        const kinds = async (): Promise<readonly string[]> =>
          (await store.changeIf([0, 1, 2].map(edited))).map(({ kind }) => kind);
        expect(await kinds()).toEqual(["ok", "changed", "changed"]);
        await store.recordIfLeased([aRecord(leased, anEntry("one", { marks: hasUndo | hasChildren }))]);
        expect(await kinds()).toEqual(["ok", "changed", "changed"]);
        const journal = { seen: 1, entries: [] };
        await store.settleIfLeased([aSettle(leased, schedule(0, { newRound: true }), { journal })]);
        await claim();
        expect(await kinds()).toEqual(["changed", "ok", "changed"]);
      },
    ],
    [
      "an append finds a job in every live state, and a signal that changes no state is no new rev",
      async ({ store, submit, lease, read, events }) => {
        const leased = await lease(aJob({ id: "running" }), { owner: "w7" });
        await submit(
          aJob({ id: "ready" }),
          aJob({ id: "scheduled", due: { inMs: 40 } }),
          aFlow(1, { id: "F" }),
        );
        const states = ["running", "ready", "scheduled", "blocked"] as const;
        const idOf = (state: string): string => (state === "blocked" ? "F" : state);
        const before = await Promise.all(states.map((state) => read(idOf(state))));
        const appends = states.map((state) => anAppend(idOf(state), aSignal("s")));
        expect(await store.changeIf(appends)).toEqual(
          before.map(({ state, rev }) => ({ kind: "ok", applied: 1, from: state, state, rev })),
        );
        const extras = ["w7", null, startAt + 40, null];
        for (const [at, job] of before.entries()) {
          expect(await read(job.id)).toEqual({ ...job, durable: hasJournal });
          const [event] = (await events(job.id)).slice(-1);
          const { id, rev, state, attempt } = job;
          expect(event).toMatchObject({ kind: "signalled", id, rev, state, attempt, extra: extras[at] });
          expect(await keysOf(store, id)).toEqual(["s"]);
        }
        const byRev = aChange("running", ["running"], askCancel, { rev: leased.rev });
        expect(await store.changeIf([byRev])).toMatchObject([{ kind: "ok" }]);
        await store.changeIf([anAppend("running", aSignal("t"))]);
        expect((await events("running")).at(-1)).toMatchObject({ kind: "signalled", extra: "w7" });
      },
    ],
    [
      "an append whose key is known is answered repeated before any guard, whatever became of the job",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        const append = anAppend("a", aSignal("s"), { count: 1, size: 1 });
        const other = anAppend("a", aSignal("t"), { count: 1, size: 1 });
        await store.recordIfLeased([aRecord(leased, anEntry("own"))]);
        expect(await store.changeIf([append, append, other])).toEqual([
          { kind: "ok", applied: 1, from: "running", state: "running", rev: 2 },
          refused("repeated", "running", 2),
          refused("full", "running", 2),
        ]);
        expect(await store.changeIf([anAppend("a", anEntry("own"))])).toEqual([
          refused("repeated", "running", 2),
        ]);
        await store.settleIfLeased([aSettle(leased, finish())]);
        const before = await read("a");
        expect(await store.changeIf([append, other, anAppend("ghost", aSignal("s"))])).toEqual([
          refused("repeated", "completed", 3),
          refused("changed", "completed", 3),
          { kind: "gone" },
        ]);
        // A guard that never holds only asks.
        const ask = (entry: EntryPut): Change => ({
          id: "a",
          cases: [{ guard: { states: [] }, next: signalled, append: { entry } }],
        });
        expect(await store.changeIf([ask(aSignal("s")), ask(aSignal("t"))])).toEqual([
          refused("repeated", "completed", 3),
          refused("changed", "completed", 3),
        ]);
        expect(await read("a")).toEqual(before);
        expect(await keysOf(store, "a")).toEqual(["own", "s"]);
      },
    ],
    [
      "steps are emitted with their texts iff an entry is new, and leave rev and progress as they were",
      async ({ store, lease, read, events }) => {
        const leased = await lease(aJob({ id: "a" }));
        const texts = ["one", "two", 'hard \u0000\u001f\u001e"\\n|'];
        const write = { ...aRecord(leased, anEntry("1")), progress: "p", steps: texts };
        const { rev } = await read("a");
        expect(await store.recordIfLeased([write])).toMatchObject([{ kind: "appended", last: 1 }]);
        expect(await store.recordIfLeased([write])).toMatchObject([{ kind: "appended", last: 1 }]);
        const effects = { jobs: [aJob({ id: "b" })] };
        const more = { ...aRecord(leased, anEntry("2")), effects, steps: ["three"], setsBack: true as const };
        expect(await store.recordIfLeased([more])).toMatchObject([{ kind: "appended", last: 2 }]);
        expect(await store.recordIfLeased([{ ...write, fence: leased.fence + 1 }])).toEqual(["stale"]);
        const emitted = (await events("a")).filter(({ kind }) => kind === "step");
        expect(emitted.map(({ extra }) => extra)).toEqual([...texts, "three"]);
        expect(emitted[0]).toMatchObject({ state: "running", rev, attempt: 1 });
        expect(await read("a")).toMatchObject({ rev, progress: "p" });
      },
    ],
    [
      "the key of any of its cases makes a change a repeat, and only the entry of the applied case is appended",
      async ({ store, submit, read }) => {
        await submit(aJob({ id: "a" }));
        const both = (ready: string, running: string): Change => ({
          id: "a",
          cases: [
            { guard: { states: ["running"] }, next: signalled, append: { entry: anEntry(running) } },
            { guard: { states: ["ready"] }, next: signalled, append: { entry: anEntry(ready) } },
            { guard: { states: ["ready"] }, next: finish("cancelled") },
          ],
        });
        expect(await store.changeIf([both("one", "two")])).toMatchObject([{ kind: "ok", applied: 1 }]);
        expect(await store.changeIf([both("three", "one")])).toEqual([refused("repeated", "ready", 1)]);
        expect(await keysOf(store, "a")).toEqual(["one"]);
        expect((await read("a")).state).toBe("ready");
      },
    ],
    [
      "an append may come with any change, which is applied after it, and with a token and an attempt log",
      async ({ store, submit, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        await submit(aJob({ id: "b" }));
        const change: Change = {
          id: "a",
          token: "once",
          cases: [
            {
              guard: { states: ["running"] },
              next: schedule(5, { event: "reclaimed" }),
              attempts: "log",
              append: { entry: anEntry("crash") },
            },
          ],
        };
        const cancel = { guard: { states: ["ready"] as const }, next: finish("cancelled") };
        const ended: Change = { id: "b", cases: [{ ...cancel, append: { entry: anEntry("end") } }] };
        expect(await store.changeIf([change, ended])).toMatchObject([{ kind: "ok" }, { kind: "ok" }]);
        expect(await read("a")).toMatchObject({ state: "scheduled", attempts: "log", durable: hasJournal });
        expect(await read("b")).toMatchObject({ state: "cancelled", durable: hasJournal });
        expect([await keysOf(store, "a"), await keysOf(store, "b")]).toEqual([["crash"], ["end"]]);
        const again = { ...change, cases: change.cases.map(({ guard, next }) => ({ guard, next })) };
        expect(await store.changeIf([again])).toMatchObject([{ kind: "already" }]);
        expect(await store.recordIfLeased([aRecord(leased, anEntry("late"))])).toEqual(["stale"]);
      },
    ],
    [
      "no more unread entries are appended than there is room for, by number and by size, until some are read",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        const kinds = async (...changes: readonly Change[]): Promise<readonly string[]> =>
          (await store.changeIf(changes)).map(({ kind }) => kind);
        const sized = (key: string, unread: number): Change => anAppend("a", aSignal(key, { unread }), room);
        expect(await kinds(sized("1", 4), sized("2", 6), sized("3", 1))).toEqual(["ok", "ok", "full"]);
        expect(await kinds(sized("1", 4), anAppend("a", aSignal("4", { unread: 1 })))).toEqual([
          "repeated",
          "ok",
        ]);
        await store.recordIfLeased([aRecord(leased, anEntry("takes 2", { reads: [2] }))]);
        expect(await kinds(sized("5", 6), sized("5", 5), sized("6", 1))).toEqual(["full", "ok", "full"]);
        await store.recordIfLeased([aRecord(leased, anEntry("again", { reads: [2, 2, 3, 99, 5] }))]);
        expect(await kinds(sized("7", 6), sized("8", 1), sized("9", 1))).toEqual(["ok", "full", "full"]);
        expect(await keysOf(store, "a")).toEqual(["1", "2", "4", "takes 2", "5", "again", "7"]);
        expect((await read("a")).rev).toBe(2);
      },
    ],
    [
      "an entry that needs no reader takes no room, and may come when there is none",
      async ({ store, submit }) => {
        await submit(aJob({ id: "a" }));
        const one = { count: 1, size: 1 };
        const ends = [anEntry("end 1"), aSignal("s"), anEntry("end 2"), aSignal("t")];
        expect(await store.changeIf(ends.map((entry) => anAppend("a", entry, one)))).toMatchObject([
          ...[{ kind: "ok" }, { kind: "ok" }, { kind: "ok" }],
          refused("full", "ready", 1),
        ]);
      },
    ],
    [
      "an entry that is appended and read in the same write takes no room after it",
      async ({ store, lease }) => {
        const leased = await lease(aJob({ id: "a" }));
        const entries = [aSignal("s"), anEntry("takes", { reads: [1] }), aSignal("self", { reads: [3] })];
        await store.recordIfLeased([aRecord(leased, ...entries)]);
        expect(await store.changeIf([anAppend("a", aSignal("t"), { count: 1, size: 1 })])).toMatchObject([
          { kind: "ok" },
        ]);
      },
    ],
    [
      "children are born with the entry that says so, and a repeat makes no second ones",
      async ({ store, lease, submit, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        await submit(aJob({ id: "known", digest: "k" }));
        const jobs = [
          aJob({ id: "child", digest: "c" }),
          aJob({ id: "known", digest: "k" }),
          aJob({ id: "m" }),
        ];
        const docs = [aDoc("d", "1", { guard: "absent" })];
        const write: LeasedWrite = { ...aRecord(leased, anEntry("invoke")), effects: { jobs, docs } };
        const appended = { kind: "appended", last: 1, at: startAt };
        expect(await store.recordIfLeased([write])).toEqual([appended]);
        const { seq } = await read("child");
        expect(await store.recordIfLeased([write, write])).toEqual([appended, appended]);
        expect(await read("child")).toMatchObject({ seq, state: "ready" });
        expect((await store.readDocs({ kind: "kv", ids: ["d"] })).docs).toMatchObject([{ version: 1 }]);
        const { jobs: all } = await store.findJobs({ filter: {}, max: 9, scanMax: 99, cursor: null });
        expect(all.map(({ id }) => id).sort()).toEqual(["a", "child", "known", "m"]);
      },
    ],
    [
      "a flow grows once with the entry that says so, however often the write is repeated",
      async ({ store, lease, submit, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        await submit(aFlow(1), aMember("x"));
        const grows = [{ id: "F", need: 1, slack: 0, members: 1 }];
        const jobs = [aMember("y", { digest: "y" })];
        const write: LeasedWrite = { ...aRecord(leased, anEntry("invoke y")), effects: { jobs, grows } };
        await store.recordIfLeased([write]);
        const { waits } = await read("F");
        expect(await store.recordIfLeased([write])).toMatchObject([{ kind: "appended", last: 1 }]);
        expect((await read("F")).waits).toBe(waits);
      },
    ],
    [
      "a refused effect undoes the whole write: its entries, marks, lines and children",
      async ({ store, lease, submit, read, events }) => {
        const leased = await lease(aJob({ id: "a", deadline: { inMs: 90 } }));
        await submit(aJob({ id: "known", digest: "1" }));
        await store.putDocs([aDoc("d", "old")]);
        const before = [await read("a"), await events()];
        const entries = [anEntry("one", { marks: isEnding | hasUndo })];
        const write = { ...aRecord(leased, ...entries), progress: "p", logs: ["l"], setsBack: true as const };
        const child = aJob({ id: "child", digest: "c" });
        const doomed = [
          { docs: [aDoc("d", "1", { guard: "absent" as const })], jobs: [child] },
          { jobs: [child, aJob({ id: "known", digest: "2" })] },
          { jobs: [child], grows: [{ id: "F", need: 1, slack: 0, members: 1 }] },
        ];
        const fine = { ...aRecord(leased, anEntry("fine")) };
        expect(
          await store.recordIfLeased([...doomed.map((effects) => ({ ...write, effects })), fine]),
        ).toEqual([
          { kind: "doc-changed", id: "d" },
          { kind: "id-differs", id: "known" },
          { kind: "flow-closed", id: "F" },
          { kind: "appended", last: 1, at: startAt },
        ]);
        expect([await read("a"), await events()]).toEqual([
          { ...(before[0] as object), durable: 1 },
          before[1],
        ]);
        expect(await store.readJobs(["child"])).toEqual([null]);
        expect((await store.readLogs({ id: "a", after: 0, max: 9 })).lines).toEqual([]);
        expect(await keysOf(store, "a")).toEqual(["fine"]);
        expect(await store.recordIfLeased([{ ...write, effects: { jobs: [child] } }])).toMatchObject([
          { kind: "appended", last: 2 },
        ]);
      },
    ],
    [
      "a run that has got further counts its attempts anew, with an empty attempt log",
      async ({ store, lease, claim, read }) => {
        const first = await lease(aJob({ id: "a" }));
        await store.settleIfLeased([aSettle(first, schedule(0), { attempts: "crash" })]);
        const [second] = await claim();
        expect(second).toMatchObject({ attempt: 2, attempts: "crash" });
        await store.recordIfLeased([aRecord(second!, anEntry("one"))]);
        expect(await read("a")).toMatchObject({ attempt: 2, attempts: "crash" });
        await store.recordIfLeased([{ ...aRecord(second!, anEntry("two")), setsBack: true }]);
        expect(await read("a")).toMatchObject({ attempt: 1, attempts: null, rev: 4, state: "running" });
        await store.settleIfLeased([aSettle(second!, schedule(0))]);
        expect(await claim()).toMatchObject([{ attempt: 2, attempts: null }]);
      },
    ],
    [
      "a run that has got further keeps its attempt log while a cancel is requested, for the reason is there",
      async ({ store, lease, claim, read }) => {
        for (const [id, parts] of [
          ["a", {}],
          ["b", { progress: "p" }],
        ] as const) {
          await store.settleIfLeased([
            aSettle(await lease(aJob({ id })), schedule(0), { attempts: "crash" }),
          ]);
          const [second] = await claim();
          await store.changeIf([
            { id, cases: [{ guard: { states: ["running"] }, next: askCancel, attempts: "why" }] },
          ]);
          await store.recordIfLeased([{ ...aRecord(second!, anEntry("one")), ...parts, setsBack: true }]);
          expect(await read(id)).toMatchObject({ attempt: 1, attempts: "why", cancelAsked: true });
          await store.settleIfLeased([aSettle(second!, finish())]);
        }
      },
    ],
    [
      "the writes of a run in one call see each other, in order",
      async ({ store, lease, claim, events }) => {
        await store.settleIfLeased([aSettle(await lease(aJob({ id: "a" })), schedule(0))]);
        const [second] = await claim();
        const back = { ...aRecord(second!, anEntry("one")), setsBack: true as const };
        await store.recordIfLeased([back, { ...aRecord(second!, anEntry("two")), progress: "half" }]);
        expect((await events("a")).at(-1)).toMatchObject({ kind: "progress", attempt: 1, extra: "half" });
      },
    ],
    [
      "a renewal tells which journals have grown since their workers looked",
      async ({ store, submit, claim }) => {
        await submit(...["a", "b", "c", "d", "e"].map((id) => aJob({ id })));
        const jobs = await claim();
        const [a, b, c, d] = jobs as [LeasedJob, LeasedJob, LeasedJob, LeasedJob];
        await store.recordIfLeased([aRecord(a, anEntry("1"), anEntry("2")), aRecord(c, anEntry("1"))]);
        await store.changeIf([anAppend("d", aSignal("s")), aChange("d", ["running"], askCancel)]);
        const leases = [
          { ...leaseOf(a), seen: 1 },
          { ...leaseOf(b), seen: 0 },
          { ...leaseOf(c), seen: 1 },
          { ...leaseOf(d), seen: 0 },
        ];
        const request = { owner: "w1", leaseMs: 1000, leases, wantsOthers: false };
        expect(await store.extendIfLeased(request)).toEqual({
          ...{ answers: ["ok", "ok", "ok", "cancel-asked"], others: [], now: startAt },
          grown: ["a", "d"],
        });
        const unasked = { ...request, leases: [leaseOf(a), { ...leaseOf(b), seen: 0 }] };
        expect(await store.extendIfLeased(unasked)).toEqual({
          answers: ["ok", "ok"],
          others: [],
          now: startAt,
        });
        await store.settleIfLeased([aSettle(a, finish())]);
        const stale = {
          ...request,
          leases: [
            { ...leaseOf(a), seen: 0 },
            { ...leaseOf(d), seen: 1 },
          ],
        };
        expect(await store.extendIfLeased(stale)).toEqual({
          ...{ answers: ["stale", "cancel-asked"], others: [], now: startAt },
        });
      },
    ],
    [
      "a journal is read from any number, page by page, several in one call, and says where it ends",
      async ({ store, lease, submit, platform }) => {
        const leased = await lease(aJob({ id: "a" }));
        await submit(aJob({ id: "b" }));
        await store.recordIfLeased([
          aRecord(leased, ...["1", "2", "3"].map((key) => anEntry(key, { marks: hasUndo }))),
        ]);
        await store.changeIf([anAppend("b", anEntry("x"))]);
        platform.advance(5);
        const entry = (number: number, key = `${number}`): object => ({
          ...{ number, at: startAt, key, body: `body of ${key}` },
        });
        const ofA = { kind: "ok", last: 3, slips: [], durable: hasJournal + hasUndo, now: startAt + 5 };
        expect(
          await store.readJournal([
            { id: "a", after: 0, max: 2 },
            { id: "b", after: 0, max: 2 },
            { id: "a", after: 2, max: 2 },
            { id: "ghost", after: 0, max: 2 },
            { id: "a", after: 3, max: 2 },
            { id: "a", after: 0, max: 0 },
          ]),
        ).toEqual([
          { ...ofA, entries: [entry(1), entry(2)] },
          { ...ofA, entries: [entry(1, "x")], last: 1, durable: hasJournal },
          { ...ofA, entries: [entry(3)] },
          { kind: "gone" },
          { ...ofA, entries: [] },
          { ...ofA, entries: [] },
        ]);
        expect(await store.readJournal([])).toEqual([]);
        expect(await journalOf(store, "a", 1)).toHaveLength(3);
      },
    ],
    [
      "a read under a lease is answered only while it is the current one",
      async ({ store, lease, claim }) => {
        const first = await lease(aJob({ id: "a" }));
        await store.recordIfLeased([aRecord(first, anEntry("one"))]);
        const under = async (held: LeasedJob): Promise<readonly string[]> => {
          const answers = await store.readJournal([
            { id: "a", after: 0, max: 9, lease: { seq: held.seq, fence: held.fence } },
            { id: "a", after: 0, max: 9, lease: { seq: held.seq + 1, fence: held.fence } },
            { id: "ghost", after: 0, max: 9, lease: { seq: held.seq, fence: held.fence } },
          ]);
          return answers.map(({ kind }) => kind);
        };
        expect(await under(first)).toEqual(["ok", "stale", "gone"]);
        await store.settleIfLeased([aSettle(first, schedule(0))]);
        expect(await under(first)).toEqual(["stale", "stale", "gone"]);
        const [second] = await claim();
        expect(await under(first)).toEqual(["stale", "stale", "gone"]);
        expect(await under(second!)).toEqual(["ok", "stale", "gone"]);
      },
    ],
    [
      "the journal of a finished job is read as before, until the job goes",
      async ({ store, lease, claim, platform, submit }) => {
        const ends = ["deleted", "pruned", "kept for no time", "kept for a while"] as const;
        for (const id of ends) {
          const leased = await lease(aJob({ id, digest: "d", queue: id === "pruned" ? "q" : "mail" }));
          await store.recordIfLeased([aRecord(leased, anEntry("one", { marks: hasUndo }))]);
          const keepMs = id === "kept for no time" ? 0 : id === "kept for a while" ? 10 : null;
          const journal = { seen: null, entries: [] };
          await store.settleIfLeased([aSettle(leased, finish("completed", { keepMs }), { journal })]);
          const isThere = (await store.readJobs([id]))[0] !== null;
          expect(isThere).toBe(keepMs !== 0);
          if (isThere) expect(await keysOf(store, id)).toEqual(["one"]);
        }
        platform.advance(20);
        await store.changeIf([aChange("deleted", ["completed"], remove)]);
        const old = { what: "history", outcome: "completed", queue: "q", exceptQueues: [] } as const;
        await pruneAll(store, { ...old, olderThanMs: 5, max: 9, cursor: null });
        await pruneAll(store, { what: "kept", max: 9 });
        for (const id of ends) {
          expect(await store.readJournal([{ id, after: 0, max: 9 }])).toEqual([{ kind: "gone" }]);
          await submit(aJob({ id, digest: "d" }));
          const [leased] = await claim();
          expect(leased).toMatchObject({ id, durable: 0 });
          expect(await journalOf(store, id)).toEqual([]);
          expect(await store.recordIfLeased([aRecord(leased!, anEntry("one"))])).toMatchObject([{ last: 1 }]);
        }
      },
    ],
    [
      "a waiting job that is deleted takes its journal along",
      async ({ store, submit }) => {
        await submit(aJob({ id: "a", digest: "d" }));
        await store.changeIf([anAppend("a", aSignal("s"), room), aChange("a", ["ready"], remove)]);
        await submit(aJob({ id: "a", digest: "d" }));
        expect(await journalOf(store, "a")).toEqual([]);
        expect(await store.changeIf([anAppend("a", aSignal("s"), room)])).toMatchObject([{ kind: "ok" }]);
      },
    ],
    [
      "a replay keeps the journal, and knows its keys",
      async ({ store, lease, claim, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.recordIfLeased([aRecord(leased, anEntry("one", { marks: hasUndo }))]);
        await store.changeIf([anAppend("a", aSignal("s"))]);
        await store.settleIfLeased([aSettle(leased, finish("failed"))]);
        await store.changeIf([aChange("a", ["failed"], replay())]);
        expect(await read("a")).toMatchObject({ state: "ready", durable: hasJournal + hasUndo });
        expect(await store.changeIf([anAppend("a", aSignal("s"))])).toMatchObject([{ kind: "repeated" }]);
        const [again] = await claim();
        expect(await store.recordIfLeased([aRecord(again!, anEntry("one"), anEntry("two"))])).toMatchObject([
          { last: 3 },
        ]);
        expect(await keysOf(store, "a")).toEqual(["one", "s", "two"]);
      },
    ],
    [
      "a job that ends with entries has them in its journal, and a repeat appends nothing",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.recordIfLeased([aRecord(leased, anEntry("one"))]);
        const journal = { seen: null, entries: [anEntry("one"), anEntry("failed")] };
        const settle = aSettle(leased, finish("failed"), { journal });
        expect(await store.settleIfLeased([settle, settle])).toEqual([{ kind: "ok" }, { kind: "already" }]);
        expect(await keysOf(store, "a")).toEqual(["one", "failed"]);
        expect(await read("a")).toMatchObject({ state: "failed", durable: hasJournal });
      },
    ],
    [
      "a settle whose effect is refused appends nothing",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        const journal = { seen: 0, entries: [anEntry("one", { marks: hasUndo })] };
        const effects = { docs: [aDoc("d", "1", { guard: { version: 7 } })] };
        expect(await store.settleIfLeased([aSettle(leased, schedule(0), { journal, effects })])).toEqual([
          { kind: "doc-changed", id: "d" },
        ]);
        expect(await read("a")).toMatchObject({ state: "running", durable: 0 });
        expect(await journalOf(store, "a")).toEqual([]);
      },
    ],
    [
      "journals of many jobs in one call do not mix, whatever their keys and bodies hold",
      async ({ store, submit, claim }) => {
        const texts = hardTexts(60);
        await submit(...texts.map((_, at) => aJob({ id: `${at}` })));
        const jobs = await claim({ max: 100 });
        const entriesOf = (at: number): readonly { key: string; body: string }[] =>
          texts.slice(0, at).map((key, index) => ({ key, body: texts[(index + at) % texts.length]! }));
        const answers = await store.recordIfLeased(jobs.map((job, at) => aRecord(job, ...entriesOf(at))));
        expect(answers).toEqual(jobs.map((_, at) => ({ kind: "appended", last: at, at: startAt })));
        for (const [at, { id }] of jobs.entries()) {
          const found = await journalOf(store, id);
          expect(found.map(({ key, body }) => ({ key, body }))).toEqual(entriesOf(at));
        }
        const [first] = jobs.slice(-1);
        const appends = texts.map((key) => anAppend(first!.id, anEntry(key)));
        const kinds = (await store.changeIf(appends)).map(({ kind }) => kind);
        expect(kinds).toEqual(texts.map((_, at) => (at === texts.length - 1 ? "ok" : "repeated")));
      },
    ],
    [
      "bodies of a megabyte come back as they were given",
      async ({ store, lease }) => {
        const leased = await lease(aJob({ id: "a" }));
        const large = (letter: string): string => `${letter}é🙂`.repeat(2 ** 20 / 7);
        await store.recordIfLeased([aRecord(leased, anEntry("one", { body: large("a") }))]);
        await store.changeIf([anAppend("a", aSignal("two", { body: large("b") }))]);
        const journal = { seen: 2, entries: [anEntry("three", { body: large("c") })] };
        await store.settleIfLeased([aSettle(leased, finish(), { journal })]);
        const found = await journalOf(store, "a");
        expect(found.map(({ body }) => body.length)).toEqual(
          ["a", "b", "c"].map((each) => large(each).length),
        );
        expect(found.map(({ body }) => body) as unknown).toEqual(["a", "b", "c"].map(large));
      },
    ],
    [
      "more entries than a call has items are appended in one write, and more appends in one call",
      async ({ store, lease, claim }) => {
        const many = Array.from({ length: storeLimits.callItemsMax + 1 }, (_, at) => `${at}`);
        const leased = await lease(aJob({ id: "a" }));
        const write = aRecord(leased, ...many.map((key) => anEntry(key)));
        expect(await store.recordIfLeased([write])).toMatchObject([{ last: many.length }]);
        expect(await store.recordIfLeased([write])).toMatchObject([{ last: many.length }]);
        expect(await keysOf(store, "a")).toEqual(many);
        await store.submit([{ jobs: [aJob({ id: "b" })] }]);
        const appends = many.map((key) => anAppend("b", aSignal(key), { count: 1000, size: 2000 }));
        const kinds = (await store.changeIf(appends)).map(({ kind }) => kind);
        expect(kinds).toEqual(many.map((_, at) => (at < 1000 ? "ok" : "full")));
        const [b] = await claim();
        const reads = many.slice(1).map(Number);
        expect(await store.recordIfLeased([aRecord(b!, anEntry("takes", { reads }))])).toMatchObject([
          { last: 1001 },
        ]);
        expect(await store.changeIf(appends.slice(-1))).toMatchObject([{ kind: "ok" }]);
      },
    ],
    [
      "many jobs record, and are appended to, in one call",
      async ({ store, submit, claim }) => {
        const names = Array.from({ length: 300 }, (_, at) => `j${at}`);
        await submit(...names.map((id) => aJob({ id })));
        const jobs = await claim({ max: 300 });
        const appends = names.map((id) => anAppend(id, aSignal("s")));
        const writes = jobs.map((job) => aRecord(job, anEntry("one"), anEntry("two")));
        expect(await store.changeIf(appends)).toMatchObject(names.map(() => ({ kind: "ok" })));
        expect(await store.recordIfLeased(writes)).toMatchObject(names.map(() => ({ last: 3 })));
        const pages = await store.readJournal(names.map((id) => ({ id, after: 0, max: 9 })));
        expect(pages).toMatchObject(
          names.map(() => ({ kind: "ok", last: 3, entries: [{ key: "s" }, { key: "one" }, { key: "two" }] })),
        );
      },
    ],
    [
      signalHintTitle,
      async ({ store, submit, claim }) => {
        await submit(aJob({ id: "a" }), aJob({ id: "b" }), aJob({ id: "c" }));
        await claim({ owner: "w1", max: 1 });
        await claim({ owner: "w2", max: 1 });
        const hints: Hint[] = [];
        const unwatch = store.watch((hint) => hints.push(hint));
        await store.changeIf(["a", "b", "c"].map((id) => anAppend(id, aSignal("s"))));
        // Hints may come a flush after their call.
        await new Promise((resolve) => void setImmediate(resolve));
        expect(hints).toContainEqual({ kind: "signalled", ids: ["a"], owner: "w1" });
        expect(hints).toContainEqual({ kind: "signalled", ids: ["b"], owner: "w2" });
        // A hint may come twice: once from the call, and once from the feed.
        const owners = new Set(hints.map((hint) => (hint.kind === "signalled" ? hint.owner : null)));
        owners.delete(null);
        expect(owners).toEqual(new Set(["w1", "w2"]));
        unwatch();
      },
    ],
  ],
};
