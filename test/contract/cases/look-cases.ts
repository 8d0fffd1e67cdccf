/** readJobs, findJobs, countJobs and readFeed (R10): what can be seen of jobs, and of what happened to them. */
import { expect } from "vitest";
import type { JobFilter } from "../../../src/store/operations.ts";
import { aChange, aClaim, aJob, aRoute, aSettle, finish, remove, schedule } from "../../support/builders.ts";
import { startAt } from "../../support/virtual/held-platform.ts";
import { findAll, readWholeFeed, sortStateCounts } from "../../support/walk.ts";
import type { ContractGroup, Subject } from "../subject.ts";

/** Twelve jobs over two queues, two names, three tags and all reachable states, two milliseconds apart. */
async function fill({ store, submit, claim, platform }: Subject): Promise<void> {
  for (let index = 0; index < 12; index++) {
    const tags = index % 3 === 0 ? ["three", `t${index}`] : null;
    await submit(
      aJob({
        id: `j${index}`,
        queue: index % 2 ? "odd" : "even",
        name: index < 6 ? "low" : "high",
        tags,
        due: { inMs: index === 11 ? 500 : 0 },
      }),
    );
    platform.advance(2);
  }
  const routes = ["odd", "even"].flatMap((queue) => ["low", "high"].map((name) => aRoute({ queue, name })));
  const running = await claim({ offers: [{ routes, max: 5 }] });
  await store.settleIfLeased([
    aSettle(running[0]!, finish()),
    aSettle(running[1]!, finish("failed", { reason: "boom" })),
    aSettle(running[2]!, finish("failed", { reason: "other" })),
    aSettle(running[3]!, finish("expired", { reason: "boom" })),
  ]);
  await store.changeIf([aChange("j9", ["ready"], finish("cancelled", { reason: null }))]);
}

const filters: readonly (readonly [JobFilter, readonly number[]])[] = [
  [{}, [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]],
  [{ states: ["ready"] }, [10, 8, 7, 6, 5]],
  [{ states: ["running", "scheduled"] }, [11, 4]],
  [{ states: ["completed"] }, [0]],
  [{ states: ["failed", "cancelled", "ready"] }, [10, 9, 8, 7, 6, 5, 2, 1]],
  [{ states: ["skipped"] }, []],
  [{ queue: "odd" }, [11, 9, 7, 5, 3, 1]],
  [{ queue: "none" }, []],
  [{ name: "low" }, [5, 4, 3, 2, 1, 0]],
  [{ queue: "even", name: "high" }, [10, 8, 6]],
  [{ tag: "three" }, [9, 6, 3, 0]],
  [{ tag: "t9" }, [9]],
  [{ tag: "t" }, []],
  [{ reason: "boom" }, [3, 1]],
  [{ reason: "boom", states: ["failed"] }, [1]],
  [{ createdAfter: startAt + 4 }, [11, 10, 9, 8, 7, 6, 5, 4, 3]],
  [{ createdBefore: startAt + 4 }, [1, 0]],
  [{ createdAfter: startAt + 4, createdBefore: startAt + 10 }, [4, 3]],
  [{ tag: "three", queue: "even", states: ["ready"], createdAfter: startAt }, [6]],
];

export const findCases: ContractGroup = {
  about: "readJobs and findJobs",
  cases: [
    [
      "jobs are read by id in the order asked for, live and finished, null where there is none",
      async (subject) => {
        await fill(subject);
        const jobs = await subject.store.readJobs(["j5", "ghost", "j0", "j5", "__proto__"]);
        expect(jobs.map((job) => job?.id ?? null)).toEqual(["j5", null, "j0", "j5", null]);
        expect(await subject.store.readJobs([])).toEqual([]);
      },
    ],
    ...filters.map(
      ([filter, expected]) =>
        [
          `find ${JSON.stringify(filter).replaceAll(/\d{7}/g, (at) => `start+${Number(at) - startAt}`)} gives the newest first, on pages and within scans of any size`,
          async (subject) => {
            await fill(subject);
            const ids = expected.map((index) => `j${index}`);
            for (const [max, scanMax] of [
              [100, 1000],
              [1, 1000],
              [3, 4],
              [100, 2],
              [2, 1],
            ] as const) {
              const found = await findAll(subject.store, filter, max, scanMax);
              expect(
                found.map(({ id }) => id),
                `max ${max}, scanMax ${scanMax}`,
              ).toEqual(ids);
            }
          },
        ] satisfies ContractGroup["cases"][number],
    ),
    [
      "what is found is what is read",
      async (subject) => {
        await fill(subject);
        const found = await findAll(subject.store);
        expect(await subject.store.readJobs(found.map(({ id }) => id))).toEqual(found);
      },
    ],
    [
      "a page is not disturbed by jobs that come or go between pages",
      async (subject) => {
        await fill(subject);
        const request = { filter: {}, max: 4, scanMax: 100, cursor: null };
        const first = await subject.store.findJobs(request);
        await subject.submit(aJob({ id: "new" }));
        await subject.store.changeIf([aChange("j7", ["ready"], remove)]);
        const second = await subject.store.findJobs({ ...request, cursor: first.cursor });
        expect(second.jobs.map(({ id }) => id)).toEqual(["j6", "j5", "j4", "j3"]);
      },
    ],
  ],
};

export const countCases: ContractGroup = {
  about: "countJobs",
  cases: [
    [
      "jobs are counted by queue, name and state, finished ones included, and what is empty is left out",
      async (subject) => {
        expect(await subject.store.countJobs()).toEqual([]);
        await fill(subject);
        const stateCount = (queue: string, name: string, state: string, count: number): object => ({
          queue,
          name,
          state,
          count,
        });
        expect(sortStateCounts(await subject.store.countJobs())).toEqual([
          stateCount("even", "high", "ready", 3),
          stateCount("even", "low", "running", 1),
          stateCount("even", "low", "completed", 1),
          stateCount("even", "low", "failed", 1),
          stateCount("odd", "high", "scheduled", 1),
          stateCount("odd", "high", "ready", 1),
          stateCount("odd", "high", "cancelled", 1),
          stateCount("odd", "low", "ready", 1),
          stateCount("odd", "low", "failed", 1),
          stateCount("odd", "low", "expired", 1),
        ]);
      },
    ],
  ],
};

export const feedCases: ContractGroup = {
  about: "readFeed",
  cases: [
    [
      "every call that changed a job is one record, in order, with one event per change",
      async ({ store, submit, claim, platform }) => {
        await submit(aJob({ id: "a" }), aJob({ id: "b", due: { inMs: 9 } }));
        platform.advance(1);
        const [leased] = await claim();
        await claim();
        await store.readJobs(["a"]);
        await store.settleIfLeased([aSettle(leased!, finish("failed", { reason: "r" }))]);
        await store.settleIfLeased([aSettle(leased!, finish())]);
        const event = (
          kind: string,
          id: string,
          rev: number,
          state: string,
          attempt: number,
          extra: unknown,
        ): object => ({
          kind,
          id,
          rev,
          route: aRoute(),
          state,
          attempt,
          extra,
        });
        expect(await readWholeFeed(store)).toEqual([
          {
            number: 1,
            at: startAt,
            events: [
              event("submitted", "a", 1, "ready", 0, null),
              event("submitted", "b", 1, "scheduled", 0, startAt + 9),
            ],
          },
          { number: 2, at: startAt + 1, events: [event("claimed", "a", 2, "running", 1, null)] },
          {
            number: 3,
            at: startAt + 1,
            events: [{ ...event("failed", "a", 3, "failed", 1, "r"), note: "!" }],
          },
        ]);
      },
    ],
    [
      "the feed can be resumed from any cursor without loss or repeat, on pages of any size",
      async ({ store, submit }) => {
        for (let index = 0; index < 6; index++) await submit(aJob({ id: `j${index}` }));
        const all = await readWholeFeed(store);
        expect(all.map(({ number }) => number)).toEqual([1, 2, 3, 4, 5, 6]);
        for (const max of [1, 2, 4]) expect(await readWholeFeed(store, max)).toEqual(all);
        for (let after = 0; after <= 6; after++) {
          const answer = await store.readFeed({ after, max: 100 });
          expect(answer).toEqual({ records: all.slice(after), cursor: 6 });
        }
      },
    ],
    [
      "asked from now on it gives no record but its present end",
      async ({ store, submit }) => {
        expect(await store.readFeed({ after: -1, max: 5 })).toEqual({ records: [], cursor: 0 });
        expect(await store.readFeed({ after: 0, max: 5 })).toEqual({ records: [], cursor: 0 });
        await submit(aJob({ id: "a" }));
        expect(await store.readFeed({ after: -1, max: 5 })).toEqual({ records: [], cursor: 1 });
      },
    ],
    [
      "the events of a job carry each rev exactly once, in order",
      async ({ store, submit, claim, events, platform }) => {
        await submit(aJob({ id: "a", due: { inMs: 5 } }));
        for (let round = 0; round < 3; round++) {
          platform.advance(5);
          await store.promoteDue({ max: 1 });
          const [leased] = await claim();
          await store.settleIfLeased([aSettle(leased!, round === 2 ? finish() : schedule(5))]);
        }
        const emitted = await events("a");
        expect(emitted.map(({ rev }) => rev)).toEqual(emitted.map((_, index) => index + 1));
        expect(emitted.map(({ kind }) => kind).join(" ")).toBe(
          "submitted promoted claimed retry-scheduled promoted claimed retry-scheduled promoted claimed completed",
        );
      },
    ],
    [
      "follow-ups of a settle are emitted after the settle, in the same record",
      async ({ store, lease }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.settleIfLeased([aSettle(leased, finish(), { effects: { jobs: [aJob({ id: "b" })] } })]);
        const last = (await readWholeFeed(store)).at(-1);
        expect(last?.events.map(({ kind, id }) => [kind, id])).toEqual([
          ["completed", "a"],
          ["submitted", "b"],
        ]);
      },
    ],
  ],
};

export const clockCases: ContractGroup = {
  about: "the store's clock",
  cases: [
    [
      "does not go back when the machine's clock does",
      async ({ store, submit, read, platform }) => {
        await submit(aJob({ id: "a" }));
        platform.setNow(startAt - 86_400_000);
        await submit(aJob({ id: "b", due: { inMs: 5 } }));
        expect(await read("b")).toMatchObject({ createdAt: startAt, dueAt: startAt + 5, state: "scheduled" });
        const { now, nextDueInMs } = await store.claim(aClaim());
        expect({ now, nextDueInMs }).toEqual({ now: startAt, nextDueInMs: 5 });
        platform.setNow(startAt + 5);
        expect(await store.promoteDue({ max: 1 })).toMatchObject({ count: 1 });
      },
    ],
  ],
};
