/** Rule R4: flows that grow while they run, and members that come back. */
import { expect } from "vitest";
import { aChange, aJob, aSettle, askCancel, finish, replay } from "../../support/builders.ts";
import type { ContractGroup } from "../subject.ts";
import {
  aFlow,
  aMember,
  always,
  block,
  chain,
  edgeTo,
  forgive,
  onSuccess,
  deferred,
  runReady,
} from "./flow-jobs.ts";

const one = { need: 1, slack: 0, members: 1 };
const parent = (name: string, masks = onSuccess): string => edgeTo(`F.${name}`, masks);

export const flowGrowthCases: ContractGroup = {
  about: "flows that grow, and members that come back",
  cases: [
    [
      "the settle of a member adds nodes to its flow, which is not decided before they have ended",
      async ({ store, claim, read }) => {
        await store.submit([{ jobs: [aFlow(1), aMember("a")] }]);
        const [a] = await claim();
        const effects = { grows: [{ id: "F", ...one }], jobs: [aMember("b")] };
        expect(await store.settleIfLeased([aSettle(a!, finish(), { effects })])).toEqual([{ kind: "ok" }]);
        expect(await read("F")).toMatchObject({ waits: "1,0,0,1,2,1,0,0,0,0" });
        expect(await runReady(store)).toEqual(["b"]);
        expect(await read("F")).toMatchObject({ waits: "0,0,0,1,2,2,0,0,0,0" });
        expect(await deferred(store)).toEqual(["F"]);
      },
    ],
    [
      "of two members that add a node of one name the second is refused, and counts nothing",
      async ({ store, claim, read }) => {
        await store.submit([{ jobs: [aFlow(2), aMember("a"), aMember("b")] }]);
        const [a, b] = await claim();
        const adding = (by: string): object => ({
          effects: {
            grows: [{ id: "F", ...one }],
            jobs: [aMember("x", { digest: by }), aMember(`of ${by}`)],
          },
        });
        const settles = [aSettle(a!, finish(), adding("a")), aSettle(b!, finish(), adding("b"))];
        const refused = { kind: "id-differs", id: "F.x" };
        expect(await store.settleIfLeased(settles)).toEqual([{ kind: "ok" }, refused]);
        expect(await store.settleIfLeased(settles.slice(1))).toEqual([refused]);
        expect(await read("F")).toMatchObject({ waits: "2,0,0,1,3,1,0,0,0,0" });
        expect(await store.readJobs(["F.of b"])).toEqual([null]);
        expect(await read("F.b")).toMatchObject({ state: "running" });
      },
    ],
    [
      "a node that others already wait for grows before the end of the member that grows it arrives",
      async ({ store, claim, read }) => {
        const jobs = [aFlow(2), aMember("a", { to: [edgeTo("j")] }), aMember("j", { need: 1 })];
        await store.submit([{ jobs }]);
        const [a] = await claim();
        const grows = [
          { id: "F", ...one },
          { id: "F.j", need: 1, slack: 0, members: 0 },
        ];
        const effects = { grows, jobs: [aMember("b", { to: [edgeTo("j")] })] };
        await store.settleIfLeased([aSettle(a!, finish(), { effects })]);
        expect(await read("F.j")).toMatchObject({ state: "blocked", waits: "1,0,0,0" });
        expect(await runReady(store)).toEqual(["b"]);
        expect(await read("F.j")).toMatchObject({ state: "ready" });
      },
    ],
    [
      "edges are added to members that live, that end in this very step, and that have ended before",
      async ({ store, claim, read }) => {
        const jobs = [aFlow(3), aMember("old"), aMember("a"), aMember("late", { due: { inMs: 50 } })];
        await store.submit([{ jobs }]);
        const [old, a] = await claim();
        await store.settleIfLeased([aSettle(old!, finish("failed"))]);
        const effects = {
          grows: [{ id: "F", ...one }],
          jobs: [aMember("b", { need: 3, slack: 1 })],
          links: [
            { from: "F.old", edge: edgeTo("b", always) },
            { from: "F.a", edge: edgeTo("b") },
            { from: "F.late", edge: edgeTo("b") },
          ],
        };
        expect(await store.settleIfLeased([aSettle(a!, finish(), { effects })])).toEqual([{ kind: "ok" }]);
        expect(await read("F.b")).toMatchObject({ state: "blocked", waits: "1,1,0,0" });
        expect(await read("F.old")).toMatchObject({
          edges: [edgeTo("", always), edgeTo("b", always)],
          waits: "0,0,2,0",
        });
        await store.changeIf([aChange("F.late", ["scheduled"], finish("cancelled"))]);
        expect(await read("F.b")).toMatchObject({ state: "blocked", waits: "1,0,0,0" });
      },
    ],
    [
      "nothing is added to a flow that has ended, is to be cancelled or is not there, and then nothing is written",
      async ({ store, claim, read }) => {
        await store.submit([{ jobs: [aFlow(1), aMember("a")] }]);
        const [a] = await claim();
        const grown = (id: string) => ({ grows: [{ id, ...one }], jobs: [aMember("b")] });
        expect(await store.submit([grown("G")])).toEqual([
          { kind: "refused", reason: "flow-closed", id: "G" },
        ]);
        const link = { links: [{ from: "F.none", edge: edgeTo("b") }], jobs: [aMember("b", { need: 1 })] };
        expect(await store.submit([link])).toEqual([
          { kind: "refused", reason: "flow-closed", id: "F.none" },
        ]);
        await store.changeIf([aChange("F", ["blocked"], askCancel)]);
        expect(await store.settleIfLeased([aSettle(a!, finish(), { effects: grown("F") })])).toEqual([
          { kind: "flow-closed", id: "F" },
        ]);
        expect(await read("F.a")).toMatchObject({ state: "running" });
        expect(await store.readJobs(["F.b"])).toEqual([null]);
        await store.settleIfLeased([aSettle(a!, finish())]);
        await store.changeIf([aChange("F", ["blocked"], finish("cancelled"))]);
        expect(await store.submit([grown("F")])).toEqual([
          { kind: "refused", reason: "flow-closed", id: "F" },
        ]);
      },
    ],
    [
      "growth that is repeated does not grow twice",
      async ({ store, read }) => {
        await store.submit([{ jobs: [aFlow(1), aMember("a")] }]);
        const unit = {
          grows: [{ id: "F", ...one }],
          jobs: [aMember("b")],
          links: [{ from: "F.a", edge: edgeTo("b") }],
        };
        expect(await store.submit([unit])).toMatchObject([{ kind: "ok", hows: ["created"] }]);
        expect(await store.submit([{ ...unit, isRepeat: true }])).toMatchObject([
          { kind: "ok", hows: ["existing"] },
        ]);
        expect(await read("F")).toMatchObject({ waits: "2,0,0,1,2,0,0,0,0,0" });
        expect(await read("F.a")).toMatchObject({ edges: [edgeTo("", always), edgeTo("b")] });
      },
    ],
    [
      "a finished member that comes back counts among the living of its flow, whose end it was",
      async ({ store, read }) => {
        await store.submit([{ jobs: [aFlow(1), aMember("a")] }]);
        await runReady(store, { a: "failed" });
        await forgive(store);
        await store.changeIf([aChange("F", ["blocked"], finish("failed"))]);
        await store.changeIf([aChange("F.a", ["failed"], replay())]);
        expect(await read("F.a")).toMatchObject({
          state: "ready",
          waits: "0,0,0,0",
          reason: null,
          keepUntil: null,
        });
        expect(await read("F")).toMatchObject({ state: "failed", waits: "1,0,0,1,1,0,0,0,0,0" });
        await store.changeIf([aChange("F", ["failed"], block())]);
        expect(await read("F")).toMatchObject({
          state: "blocked",
          waits: "1,0,0,1,1,0,0,0,0,0",
          reason: null,
        });
        expect(await runReady(store)).toEqual(["a"]);
        expect(await read("F")).toMatchObject({ waits: "0,0,0,1,1,1,0,0,0,0" });
        expect(await deferred(store)).toEqual(["F"]);
      },
    ],
    [
      "a flow that is reopened and already decided defers work at once",
      async ({ store, read }) => {
        await store.submit([{ jobs: [aFlow(1), aMember("a")] }]);
        await runReady(store);
        await forgive(store);
        await store.changeIf([aChange("F", ["blocked"], finish("completed"))]);
        await store.changeIf([aChange("F", ["completed"], block())]);
        expect(await read("F")).toMatchObject({ state: "blocked", waits: "0,0,0,1,1,1,0,0,0,0" });
        expect(await deferred(store)).toEqual(["F"]);
      },
    ],
    [
      "a member that is blocked anew waits for the parents that have not come, and for no others",
      async ({ store, claim, read }) => {
        const jobs = [
          aFlow(3),
          aMember("a", { to: [edgeTo("j")] }),
          aMember("b", { to: [edgeTo("j")] }),
          aMember("j", { need: 2 }),
        ];
        await store.submit([{ jobs }]);
        const [a, b] = await claim();
        await store.settleIfLeased([aSettle(a!, finish("failed"))]);
        await store.changeIf([aChange("F.j", ["blocked"], finish("skipped"))]);
        await forgive(store);
        // First the one that runs again, held back; then what depends on it; then it is let go.
        const held = block({ waits: { need: 1, slack: 0 }, attempt: 0 });
        expect(await store.changeIf([aChange("F.a", ["failed"], held)])).toMatchObject([
          { kind: "ok", state: "blocked" },
        ]);
        const anew = block({ parents: [parent("a"), parent("b")], waits: { need: 2, slack: 0 } });
        expect(await store.changeIf([aChange("F.j", ["skipped"], anew)])).toMatchObject([
          { kind: "ok", state: "blocked" },
        ]);
        expect(await read("F.j")).toMatchObject({
          state: "blocked",
          waits: "2,0,0,0",
          attempt: 0,
          reason: null,
        });
        await store.settleIfLeased([aSettle(b!, finish())]);
        expect(await read("F.j")).toMatchObject({ waits: "1,0,0,0" });
        expect(await store.changeIf([aChange("F.j", ["blocked"], anew)])).toMatchObject([{ kind: "ok" }]);
        expect(await read("F.j")).toMatchObject({ waits: "1,0,0,0" });
        await store.changeIf([aChange("F.a", ["blocked"], replay())]);
        expect(await runReady(store)).toEqual(["a"]);
        expect(await read("F.j")).toMatchObject({ state: "ready" });
        expect(await read("F")).toMatchObject({ waits: "1,0,0,1,3,2,0,0,0,0" });
      },
    ],
    [
      "a member that is blocked anew is freed at once where all its parents have come, and defers where it never can be",
      async ({ store, read }) => {
        await store.submit([{ jobs: chain }]);
        await runReady(store);
        await runReady(store, { b: "failed" });
        expect(await deferred(store)).toEqual(["F.c"]);
        await forgive(store);
        const anew = block({ parents: [parent("a")], waits: { need: 1, slack: 0 } });
        await store.changeIf([aChange("F.b", ["failed"], anew)]);
        expect(await read("F.b")).toMatchObject({ state: "ready", waits: "0,0,0,0" });
        expect(await deferred(store)).toEqual([]);
        await runReady(store, { b: "failed" });
        await forgive(store);
        const lost = block({ parents: [parent("b")], waits: { need: 1, slack: 0 } });
        await store.changeIf([aChange("F.c", ["blocked"], lost)]);
        expect(await read("F.c")).toMatchObject({ state: "blocked", waits: "1,-1,0,0" });
        expect(await deferred(store)).toEqual(["F.c"]);
        const orphan = block({ parents: [parent("gone", always)], waits: { need: 1, slack: 0 } });
        await store.changeIf([aChange("F.c", ["blocked"], orphan)]);
        expect(await read("F.c")).toMatchObject({ state: "ready" });
      },
    ],
    [
      "a member that comes back to wait has no deadline that has passed, and keeps one that has not",
      async ({ store, platform, read }) => {
        const late = aMember("a", { deadline: { inMs: 10 } });
        const early = aMember("b", { deadline: { inMs: 1000 } });
        const waiting = aMember("c", { need: 1, deadline: { inMs: 10 } });
        await store.submit([{ jobs: [aFlow(3), late, early, waiting] }]);
        const { deadlineAt } = await read("F.b");
        platform.advance(10);
        const names = ["F.a", "F.b"];
        await store.changeIf(names.map((id) => aChange(id, ["ready"], finish("expired"))));
        const anew = block({ waits: { need: 1, slack: 0 } });
        const changes = [...names, "F.c"].map((id) => aChange(id, ["expired", "blocked"], anew));
        expect(await store.changeIf(changes)).toMatchObject(names.concat("F.c").map(() => ({ kind: "ok" })));
        expect(await read("F.a")).toMatchObject({ state: "blocked", deadlineAt: null });
        expect(await read("F.b")).toMatchObject({ state: "blocked", deadlineAt });
        // It has not ended yet, so it still has to.
        expect(await read("F.c")).toMatchObject({ state: "blocked", deadlineAt: deadlineAt! - 990 });
      },
    ],
    [
      "a replay of a member whose key another holds by now is refused and counts nothing",
      async ({ store, submit, read }) => {
        const unique = { key: "k", hold: "end", onHeld: "keep" } as const;
        await store.submit([{ jobs: [aFlow(1), aMember("a", { unique })] }]);
        await runReady(store);
        await submit(aJob({ id: "x", unique }));
        const anew = block({ waits: { need: 1, slack: 0 } });
        expect(await store.changeIf([aChange("F.a", ["completed"], anew)])).toEqual([
          { kind: "key-held", by: "x" },
        ]);
        expect(await read("F")).toMatchObject({ waits: "0,0,0,1,1,1,0,0,0,0" });
      },
    ],
  ],
};
