/**
 * What the feed has beside changes of state (R10): starts, progress, the notes of settles, and what documents tell.
 */
import { expect } from "vitest";
import { storeLimits } from "../../../src/store/contract-limits.ts";
import { BundleWalk } from "../../../src/store/packing/packed-events.ts";
import type { FeedBundle, FeedEvent, LeaseRef } from "../../../src/store/records.ts";
import { aClaim, aDoc, aJob, aRoute, aSettle, finish, handBack, schedule } from "../../support/builders.ts";
import { startAt } from "../../support/virtual/held-platform.ts";
import type { ContractGroup } from "../subject.ts";

const hardTexts = ["10", "", "\0\x1e\x1f\x01", '{"done": "é🙂"}', "\ud800"];

const ref = ({ id, seq, fence }: LeaseRef): LeaseRef => ({ id, seq, fence });

export const emitCases: ContractGroup = {
  about: "what is emitted beside",
  cases: [
    [
      "a claim emits of the first jobs of an offer that they have started, and of the others that they have not",
      async ({ store, submit, events }) => {
        await submit(...["a", "b", "c", "d"].map((id) => aJob({ id, digest: null })));
        const other = aJob({ id: "e", name: "other", unique: null });
        await submit(other);
        const routes = [aRoute(), aRoute({ name: "other" })];
        await store.claim(aClaim({ offers: [{ routes, max: 5, starts: 2 }] }));
        const claimed = (await events()).filter(({ kind }) => kind === "claimed");
        const started = new Map(claimed.map(({ id, extra }) => [id, extra]));
        expect(["a", "b", "c", "d", "e"].map((id) => started.get(id))).toEqual([1, 1, null, null, null]);
      },
    ],
    [
      "the same jobs of one route are emitted as started and have started, whatever their ranks and inputs are",
      async ({ store, submit, events, platform }) => {
        const shapes = [
          () => ({}),
          (at: number) => ({ rankBase: (at * 3) % 5 }),
          (at: number) => ({ input: `"${"x".repeat(at % 2 === 0 ? 3000 : 3)}"` }),
        ];
        for (const [number, shape] of shapes.entries()) {
          const name = `n${number}`;
          const jobs = Array.from({ length: 5 }, (_, at) =>
            aJob({ id: `${name}-${at}`, name, digest: null, ...shape(at) }),
          );
          await submit(...jobs);
          const offers = [{ routes: [aRoute({ name })], max: 5, starts: 2 }];
          const claimed = (await store.claim(aClaim({ offers }))).jobs.map(({ id }) => id);
          const sorted = [...jobs].sort((one, other) => one.rankBase - other.rankBase);
          expect(claimed).toEqual(sorted.map(({ id }) => id));
          const emitted = new Map(
            (await events()).filter(({ kind }) => kind === "claimed").map(({ id, extra }) => [id, extra]),
          );
          expect(claimed.map((id) => emitted.get(id))).toEqual([1, 1, null, null, null]);
          const now = platform.now();
          const starts = (await store.readJobs(claimed)).map((record) => record?.startedAt);
          expect(starts).toEqual([now, now, null, null, null]);
        }
      },
    ],
    [
      "the first report of a start is emitted with its time and without a new rev; later ones are not emitted",
      async ({ store, lease, platform, events }) => {
        const leased = await lease(aJob({ id: "a" }));
        platform.advance(50);
        const report = { owner: "w1", leaseMs: 1000, wantsOthers: false };
        await store.extendIfLeased({ ...report, leases: [{ ...ref(leased), startedAgoMs: 20 }] });
        await store.extendIfLeased({ ...report, leases: [{ ...ref(leased), startedAgoMs: 0 }] });
        await store.extendIfLeased({ ...report, leases: [ref(leased)] });
        const emitted = {
          kind: "started",
          id: "a",
          rev: 2,
          state: "running",
          attempt: 1,
          extra: startAt + 30,
        };
        expect((await events()).slice(2)).toEqual([{ ...emitted, route: aRoute() }]);
      },
    ],
    [
      "progress is emitted with its text, log lines are not",
      async ({ store, lease, events }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.recordIfLeased([{ ...ref(leased), logs: ["line"] }]);
        for (const progress of hardTexts) await store.recordIfLeased([{ ...ref(leased), progress }]);
        expect((await events()).slice(2)).toEqual(
          hardTexts.map((extra) => ({
            ...{ kind: "progress", id: "a", rev: 2, route: aRoute(), state: "running", attempt: 1, extra },
          })),
        );
      },
    ],
    [
      "a settle carries its attempt log where that is short, and a mark where the start was not emitted before",
      async ({ store, submit, events }) => {
        const ids = ["a", "b", "c", "d", "e", "f"];
        await submit(...ids.map((id) => aJob({ id })));
        const offers = [{ routes: [aRoute()], max: 6, starts: 3 }];
        const [a, b, c, d, e, f] = (await store.claim(aClaim({ offers }))).jobs;
        const long = "x".repeat(storeLimits.noteCharsMax + 1);
        await store.settleIfLeased([
          aSettle(a!, finish(), { attempts: "1 20 30" }),
          aSettle(b!, finish(), { attempts: long }),
          aSettle(c!, schedule(5), { attempts: "\u001f1\u001e" }),
          aSettle(d!, finish(), { attempts: "1 20 30" }),
          aSettle(e!, finish("failed", { reason: "r" }), { attempts: null }),
          aSettle(f!, handBack, { attempts: long }),
        ]);
        const notes = new Map((await events()).slice(-6).map(({ id, note }) => [id, note]));
        expect(ids.map((id) => notes.get(id))).toEqual([
          ...["1 20 30", undefined, "\u001f1\u001e"],
          ...["!1 20 30", "!", "!"],
        ]);
      },
    ],
    [
      "a settle with effects carries its note too",
      async ({ store, lease, events }) => {
        const leased = await lease(aJob({ id: "a" }));
        const effects = { docs: [aDoc("k", "v")] };
        await store.settleIfLeased([aSettle(leased, finish(), { attempts: "1 2 3", effects })]);
        expect((await events()).at(-1)).toMatchObject({ kind: "completed", note: "!1 2 3" });
      },
    ],
    [
      "of a record only the kinds that were asked for are given, each with its place in it",
      async ({ store, submit }) => {
        await submit(aJob({ id: "a" }), aJob({ id: "b", due: { inMs: 5 } }));
        const [leased] = (await store.claim(aClaim())).jobs;
        const effects = { jobs: [aJob({ id: "c" }), aJob({ id: "d" })] };
        await store.settleIfLeased([aSettle(leased!, finish(), { attempts: "1 2 3", effects })]);
        const whole = (await store.readFeed({ after: 0, max: 9 })).records;
        const kinds = ["submitted", "claimed"] as const;
        const { records, cursor } = await store.readFeed({ after: 0, max: 9, kinds });
        expect(cursor).toBe(3);
        for (const [at, { number, events, count }] of records.entries()) {
          const all = whole[at]!.events.map((event, index) => ({ ...event, index }));
          expect({ number, count }).toEqual({ number: at + 1, count: all.length });
          expect(events).toEqual(all.filter(({ kind }) => kind !== "completed"));
        }
        expect(records[2]!.events.map(({ id, index }) => `${id} ${index}`)).toEqual(["c 1", "d 2"]);
      },
    ],
    [
      "bundles hold the very events of their record, with and without kinds, whatever their ids are",
      async ({ store, submit }) => {
        await submit(aJob({ id: "a\u001fb" }), aJob({ id: "c\u001e\u0001" }), aJob({ id: "d" }));
        const { jobs } = await store.claim(aClaim({ max: 3 }));
        await store.settleIfLeased([
          aSettle(jobs[0]!, finish(), { attempts: "1 2 3" }),
          aSettle(jobs[1]!, finish()),
          aSettle(jobs[2]!, schedule(5, { event: "snoozed" })),
        ]);
        for (const kinds of [{}, { kinds: ["completed", "snoozed"] as const }]) {
          const asked = { after: 0, max: 9, ...kinds };
          const whole = (await store.readFeed(asked)).records;
          const { records } = await store.readFeed({ ...asked, isBundled: true });
          for (const [at, { number, count, bundles }] of records.entries()) {
            const { events } = whole[at]!;
            expect({ number, count }).toEqual({ number: at + 1, count: 3 });
            expect(records[at]!.events).toEqual([]);
            expect(walked(bundles!)).toEqual(events.map((event, index) => ({ note: "", index, ...event })));
          }
          expect(records).toHaveLength(3);
        }
      },
    ],
    [
      "a document emits an event of no job where its put is applied, and nothing where it is refused",
      async ({ store, submit, events }) => {
        const emits = { kind: "queue-changed", subject: "the\u001fqueue", extra: "why" } as const;
        await store.putDocs([
          { ...aDoc("a", "1"), emits },
          { ...aDoc("a", "2"), guard: "absent", emits },
          { ...aDoc("a", "3"), body: null, emits: { ...emits, extra: null } },
        ]);
        await store.submit([{ jobs: [aJob({ id: "x" })], docs: [{ ...aDoc("a", "4"), emits }] }]);
        await submit(aJob({ id: "y" }));
        const emitted = {
          kind: "queue-changed",
          id: "the\u001fqueue",
          rev: 0,
          route: 0,
          state: null,
          attempt: 0,
        };
        expect((await events()).filter(({ route }) => route === 0)).toEqual([
          ...[
            { ...emitted, extra: "why" },
            { ...emitted, extra: null },
            { ...emitted, extra: "why" },
          ],
        ]);
      },
    ],
  ],
};

function walked(bundles: readonly FeedBundle[]): FeedEvent[] {
  const walk = new BundleWalk();
  const found: FeedEvent[] = [];
  for (const bundle of bundles) {
    walk.enter(bundle);
    while (walk.next()) {
      const { kind, id, rev, route, state, attempt, extra, note, index } = walk;
      found.push({ kind, id, rev, route, state, attempt, extra, note, index });
    }
  }
  return found;
}
