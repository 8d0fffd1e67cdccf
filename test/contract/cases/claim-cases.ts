/** claim (R6): which jobs, in which order, and what a claim does to them. */
import { routeOf } from "../../../src/model/routing/route.ts";
import { expect } from "vitest";
import {
  aChange,
  aClaim,
  aJob,
  aRoute,
  aSettle,
  finish,
  handBack,
  schedule,
} from "../../support/builders.ts";
import { startAt } from "../../support/virtual/held-platform.ts";
import type { ContractGroup } from "../subject.ts";
import { byRank, groupGate, grouped } from "./laned-jobs.ts";

const ids = (jobs: readonly { readonly id: string }[]): string[] => jobs.map(({ id }) => id);

export const claimCases: ContractGroup = {
  about: "claim",
  cases: [
    [
      "an empty store gives nothing and knows no next clock",
      async ({ store }) => {
        expect(await store.claim(aClaim())).toEqual({
          jobs: [],
          more: false,
          nextDueInMs: null,
          now: startAt,
        });
      },
    ],
    [
      "a claimed job is running under a lease, with its first attempt and fence",
      async ({ store, submit, read, platform }) => {
        await submit(aJob({ id: "a", policy: "{}", meta: "m", deadline: { inMs: 5000 } }));
        platform.advance(3);
        const { epoch } = await store.describe();
        const fence = epoch * 2 ** 32 + 1;
        const { jobs, nextDueInMs, now } = await store.claim(aClaim({ owner: "w7", leaseMs: 400 }));
        expect(jobs).toEqual([
          {
            ...{
              id: "a",
              seq: 1,
              fence,
              route: aRoute(),
              rev: 2,
              attempt: 1,
              input: '"a"',
              policy: "{}",
              meta: "m",
            },
            ...{
              attempts: null,
              createdAt: startAt,
              dueAt: startAt,
              claimedAt: startAt + 3,
              deadlineAt: startAt + 5000,
              durable: 0,
            },
          },
        ]);
        expect({ nextDueInMs, now }).toEqual({ nextDueInMs: 400, now: startAt + 3 });
        expect(await read("a")).toMatchObject({
          ...{ state: "running", fence, rev: 2, attempt: 1, owner: "w7", claimedAt: startAt + 3 },
          ...{ startedAt: null, leaseEndsAt: startAt + 403, attemptEndsAt: null },
        });
      },
    ],
    [
      "jobs come by rank, then in the order of submission",
      async ({ submit, claim }) => {
        await submit(
          aJob({ id: "c", rankBase: 50 }),
          aJob({ id: "a", rankBase: -50 }),
          aJob({ id: "b1" }),
          aJob({ id: "b2" }),
          aJob({ id: "late", due: { at: startAt - 100 } }),
        );
        expect(ids(await claim())).toEqual(["late", "a", "b1", "b2", "c"]);
      },
    ],
    [
      "ranks near 2^53 keep their order exactly",
      async ({ submit, claim }) => {
        const base = 1023 * 2 ** 42;
        await submit(
          aJob({ id: "b", rankBase: base + 1 }),
          aJob({ id: "a", rankBase: base }),
          aJob({ id: "c", rankBase: base + 2 }),
        );
        await submit(aJob({ id: "z", rankBase: -base }));
        expect(ids(await claim())).toEqual(["z", "a", "b", "c"]);
      },
    ],
    [
      "a negative slope gives the latest first",
      async ({ submit, claim, platform }) => {
        await submit(aJob({ id: "old", rankSlope: -1 }));
        platform.advance(5);
        await submit(aJob({ id: "new", rankSlope: -1 }));
        expect(ids(await claim())).toEqual(["new", "old"]);
      },
    ],
    [
      "no more than asked for, each job once, and more says that an offer was filled",
      async ({ submit, store }) => {
        await submit(...["a", "b", "c"].map((id) => aJob({ id })));
        const first = await store.claim(aClaim({ max: 2 }));
        expect([ids(first.jobs), first.more]).toEqual([["a", "b"], true]);
        const second = await store.claim(aClaim({ max: 2, owner: "w2" }));
        expect([ids(second.jobs), second.more]).toEqual([["c"], false]);
        expect(ids((await store.claim(aClaim())).jobs)).toEqual([]);
      },
    ],
    [
      "the first jobs of an offer, for which a slot is free, have started with the claim",
      async ({ submit, store, claim, platform }) => {
        const names = ["n1", "n2", "n3"];
        const unique = { key: "k", hold: "started", onHeld: "keep" } as const;
        await submit(
          ...Array.from({ length: 12 }, (_, at) =>
            aJob({
              id: `j${at}`,
              name: names[at % 3]!,
              rankBase: 100 - at,
              unique: at === 9 ? unique : null,
            }),
          ),
        );
        const offers = [
          { routes: [aRoute({ name: "n1" }), aRoute({ name: "n2" })], max: 6, starts: 3 },
          { routes: [aRoute({ name: "n3" })], max: 2, starts: 5 },
        ];
        const claimed = ids(await claim({ offers }));
        const starts = (await store.readJobs(claimed)).map((record) => record?.startedAt);
        const now = platform.now();
        expect(starts).toEqual([now, now, now, null, null, null, now, now]);
      },
    ],
    [
      "several routes of one offer are merged by rank, and every offer has its own max",
      async ({ submit, claim }) => {
        const names = ["n1", "n2", "n3"];
        const jobs = Array.from({ length: 60 }, (_, index) =>
          aJob({ id: `j${index}`, name: names[(index * 7) % 3]!, rankBase: (index * 37) % 60 }),
        );
        await submit(...jobs);
        const sorted = [...jobs].sort((a, b) => a.rankBase - b.rankBase);
        const offers = [
          { routes: [aRoute({ name: "n1" }), aRoute({ name: "n2" })], max: 20 },
          { routes: [aRoute({ name: "n3" })], max: 5 },
        ];
        const expected = [
          ...sorted.filter(({ name }) => name !== "n3").slice(0, 20),
          ...sorted.filter(({ name }) => name === "n3").slice(0, 5),
        ];
        expect(ids(await claim({ offers }))).toEqual(ids(expected));
      },
    ],
    [
      "one busy route among several gives all that is wanted",
      async ({ submit, claim }) => {
        const busy = Array.from({ length: 200 }, (_, index) => aJob({ id: `j${index}` }));
        await submit(...busy, aJob({ id: "x", name: "x" }), aJob({ id: "y", name: "y" }));
        const routes = [aRoute(), aRoute({ name: "x" }), aRoute({ name: "y" })];
        const claimed = await claim({ offers: [{ routes, max: 150 }] });
        expect(ids(claimed)).toEqual(ids(busy.slice(0, 150)));
        const rest = await claim({ offers: [{ routes, max: 150 }] });
        expect(ids(rest)).toEqual([...ids(busy.slice(150)), "x", "y"]);
      },
    ],
    [
      "jobs of routes that were not offered stay where they are",
      async ({ submit, claim, read }) => {
        await submit(aJob({ id: "a" }), aJob({ id: "b", name: "other" }), aJob({ id: "c", queue: "other" }));
        expect(ids(await claim({ offers: [{ routes: [aRoute({ name: "other" }), 99], max: 10 }] }))).toEqual([
          "b",
        ]);
        expect((await read("a")).state).toBe("ready");
        expect((await read("c")).state).toBe("ready");
      },
    ],
    [
      "every route that has had a job is known by the number of its content, live jobs or not",
      async ({ submit, claim, store }) => {
        await submit(aJob({ id: "a" }), aJob({ id: "b", queue: "x" }), aJob({ id: "c", name: "y" }));
        await submit(aJob({ id: "d" }));
        const [a] = await claim({ max: 1 });
        await store.settleIfLeased([aSettle(a!, finish("completed", { keepMs: 0 }))]);
        const routes = [
          { queue: "mail", name: "send" },
          { queue: "x", name: "send" },
          { queue: "mail", name: "y" },
        ].map((content) => routeOf(content));
        expect(await store.readRoutes()).toEqual(routes.sort((one, other) => one.number - other.number));
      },
    ],
    [
      "a claim is bounded by the bytes of its inputs as well, but always hands out one job",
      async ({ submit, store }) => {
        const input = `"${"x".repeat(998)}"`;
        await submit(...["a", "b", "c", "d"].map((id) => aJob({ id, input })));
        await submit(aJob({ id: "e", name: "other" }));
        const offers = [
          { routes: [aRoute()], max: 10 },
          { routes: [aRoute({ name: "other" })], max: 10 },
        ];
        const first = await store.claim(aClaim({ offers, inputBytesMax: 1500 }));
        expect([ids(first.jobs), first.more]).toEqual([["a", "b"], true]);
        const second = await store.claim(aClaim({ offers, inputBytesMax: 1 }));
        expect([ids(second.jobs), second.more]).toEqual([["c"], true]);
        const third = await store.claim(aClaim({ offers, inputBytesMax: 100_000 }));
        expect([ids(third.jobs), third.more]).toEqual([["d", "e"], false]);
      },
    ],
    [
      "a scheduled job is not claimed before it is promoted, and a claim says how long that takes",
      async ({ submit, store, platform }) => {
        await submit(aJob({ id: "a", due: { inMs: 100 } }));
        expect(await store.claim(aClaim())).toMatchObject({ jobs: [], nextDueInMs: 100 });
        platform.advance(150);
        expect(await store.claim(aClaim())).toMatchObject({ jobs: [], nextDueInMs: 0 });
        await store.promoteDue({ max: 10 });
        expect(ids((await store.claim(aClaim())).jobs)).toEqual(["a"]);
      },
    ],
    [
      "a job whose deadline or time-to-live has rung is left to the duty, and the others are claimed around it",
      async ({ submit, claim, platform }) => {
        await submit(
          aJob({ id: "deadline", deadline: { inMs: 10 } }),
          aJob({ id: "ttl", ttlMs: 10 }),
          aJob({ id: "fine", ttlMs: 11, deadline: { inMs: 11 } }),
        );
        await submit(aJob({ id: "other", name: "other" }));
        platform.advance(10);
        expect(
          ids(await claim({ offers: [{ routes: [aRoute(), aRoute({ name: "other" })], max: 1 }] })),
        ).toEqual(["fine"]);
        expect(ids(await claim({ max: 2 }))).toEqual([]);
      },
    ],
    [
      "the first claim ends the time-to-live",
      async ({ submit, claim, read, store, platform }) => {
        await submit(aJob({ id: "a", ttlMs: 10 }));
        const [leased] = await claim();
        expect((await read("a")).ttlAt).toBeNull();
        await store.settleIfLeased([aSettle(leased!, handBack)]);
        platform.advance(50);
        expect(ids(await claim())).toEqual(["a"]);
      },
    ],
    [
      "fences grow with every claim, attempts only when the last one counted",
      async ({ lease, claim, store, read }) => {
        const first = await lease(aJob({ id: "a" }));
        await store.settleIfLeased([aSettle(first, handBack)]);
        expect((await read("a")).countsAttempt).toBe(0);
        const [second] = await claim();
        expect((await read("a")).countsAttempt).toBe(1);
        await store.settleIfLeased([aSettle(second!, schedule(0, { event: "snoozed", countsAttempt: 0 }))]);
        const [third] = await claim();
        await store.settleIfLeased([aSettle(third!, schedule(0))]);
        const [fourth] = await claim();
        const leases = [first, second!, third!, fourth!];
        expect(leases.map(({ fence }) => fence - first.fence)).toEqual([0, 1, 2, 3]);
        expect(leases.map(({ attempt }) => attempt)).toEqual([1, 1, 1, 2]);
      },
    ],
    [
      "finished and cancelled jobs are never claimed",
      async ({ submit, lease, store, claim }) => {
        await store.settleIfLeased([aSettle(await lease(aJob({ id: "a" })), finish())]);
        await submit(aJob({ id: "b" }));
        await store.changeIf([aChange("b", ["ready"], finish("cancelled"))]);
        expect(await claim()).toEqual([]);
      },
    ],
    [
      "answers the gates of a job's keys, also of one that has run before, and nothing of a job without any",
      async ({ submit, store }) => {
        await submit(
          grouped("a", "k"),
          grouped("b", "{l}\u001f"),
          aJob({ id: "c" }),
          aJob({ id: "d", laneKey: "d" }),
        );
        const claim = async () => {
          const offers = [
            { routes: [byRank], max: 5 },
            { routes: [aRoute()], max: 5 },
          ];
          return (await store.claim(aClaim({ offers }))).jobs;
        };
        const first = await claim();
        const emitted = [
          ["a", [groupGate("k")]],
          ["b", [groupGate("{l}\u001f")]],
          ["d", undefined],
          ["c", undefined],
        ];
        expect(first.map(({ id, keyGates }) => [id, keyGates])).toEqual(emitted);
        await store.settleIfLeased(first.map((job) => aSettle(job, handBack)));
        expect((await claim()).map(({ id, keyGates }) => [id, keyGates])).toEqual(emitted);
      },
    ],
  ],
};
