/** watch, describe, close, and the operations that belong to a later version. */
import { expect } from "vitest";
import type { Hint, Store } from "../../../src/store/store.ts";
import { aChange, aJob, aRoute, aSettle, askCancel, finish, schedule } from "../../support/builders.ts";
import { startAt } from "../../support/virtual/held-platform.ts";
import type { ContractGroup } from "../subject.ts";
import { aFlow, aMember } from "./flow-jobs.ts";

export const hintTitle =
  "a listener hears what became ready, what is due, that it was promoted, what wrote output, what finished and whose cancel was asked for";

export const owedHintTitle = "deferred work of a call does not hide the clock that the same call sets";

function listen(store: Store): { hints: Hint[]; unwatch: () => void } {
  const hints: Hint[] = [];
  return { hints, unwatch: store.watch((hint) => hints.push(hint)) };
}

/** Hints may come a flush after their call. */
const flush = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

const laterOperations = ["exportPage", "importPage"] as const;

export const hintCases: ContractGroup = {
  about: "watch",
  cases: [
    [
      hintTitle,
      async ({ store, platform, submit, claim }) => {
        const { hints, unwatch } = listen(store);
        const two = { name: "two", requires: ["gpu"] };
        await submit(aJob({ id: "a" }), aJob({ id: "b", ...two }));
        await flush();
        const ready = hints.flatMap((hint) => (hint.kind === "ready" ? hint.routes : []));
        expect(new Set(ready)).toEqual(new Set([aRoute(), aRoute(two)]));
        await submit(aJob({ id: "c", due: { inMs: 40 } }), aJob({ id: "d" }));
        await flush();
        expect(hints).toContainEqual({ kind: "due", inMs: 40 });
        const [, b, d] = await claim({
          offers: [{ routes: [aRoute(), aRoute(two)], max: 3 }],
          owner: "w3",
        });
        await store.changeIf([aChange("a", ["running"], askCancel)]);
        await flush();
        expect(hints).toContainEqual({ kind: "cancel", ids: ["a"], owner: "w3" });
        const { id, seq, fence } = b!;
        const chunks = [{ number: 1, body: "x" }];
        await store.recordIfLeased([{ id, seq, fence, frames: { chunks } }]);
        await flush();
        expect(hints).toContainEqual({ kind: "output", ids: ["b"] });
        await store.settleIfLeased([aSettle(b!, finish())]);
        await flush();
        expect(hints).toContainEqual({ kind: "finished", ids: ["b"] });
        hints.length = 0;
        await store.settleIfLeased([aSettle(d!, schedule(0))]);
        await flush();
        expect(hints).toContainEqual({ kind: "ready", routes: [aRoute()] });
        await store.promoteDue({ max: 10 });
        await flush();
        expect(hints).not.toContainEqual({ kind: "promoted" });
        platform.advance(40);
        await store.promoteDue({ max: 10 });
        await flush();
        expect(hints).toContainEqual({ kind: "promoted" });
        unwatch();
      },
    ],
    [
      owedHintTitle,
      async ({ store, submit, claim }) => {
        await submit(aFlow(1), aMember("a"));
        await submit(aJob({ id: "later" }));
        const jobs = await claim();
        const { hints, unwatch } = listen(store);
        const settles = jobs.map((job) => aSettle(job, job.id === "later" ? schedule(40) : finish()));
        expect(await store.settleIfLeased(settles)).toEqual([{ kind: "ok" }, { kind: "ok" }]);
        await flush();
        expect(hints).toContainEqual({ kind: "due", inMs: 0 });
        expect(hints).toContainEqual({ kind: "due", inMs: 40 });
        unwatch();
      },
    ],
    [
      "who stopped listening hears nothing more, and a listener that throws harms no call",
      async ({ store, submit }) => {
        const { hints, unwatch } = listen(store);
        unwatch();
        const unwatchThrower = store.watch(() => {
          throw new Error("a bad listener");
        });
        expect(await submit(aJob({ id: "a" }))).toMatchObject([{ kind: "ok" }]);
        await flush();
        expect(hints).toEqual([]);
        unwatchThrower();
      },
    ],
  ],
};

export const describeCases: ContractGroup = {
  about: "describe and what comes later",
  cases: [
    [
      "a store says what it is",
      async ({ store }) => {
        const description = await store.describe();
        expect(description).toMatchObject({ now: startAt, warnings: expect.any(Array) as unknown });
        expect(["strict", "relaxed", "memory"]).toContain(description.durability);
        expect(Number.isSafeInteger(description.epoch) && description.epoch >= 0).toBe(true);
      },
    ],
    ...laterOperations.map(
      (operation) =>
        [
          `${operation} is refused as not-yet-supported`,
          async ({ store }) => {
            await expect((async () => store[operation]({}))()).rejects.toMatchObject({
              code: "not-yet-supported",
            });
          },
        ] satisfies ContractGroup["cases"][number],
    ),
    [
      "empty calls are answered empty and leave no record",
      async ({ store, events }) => {
        expect(await store.submit([])).toEqual([]);
        expect(await store.submit([{ jobs: [] }])).toEqual([{ kind: "ok", ids: [], hows: [] }]);
        expect(await store.settleIfLeased([])).toEqual([]);
        expect(await store.recordIfLeased([])).toEqual([]);
        expect(await store.changeIf([])).toEqual([]);
        expect(await store.putDocs([])).toEqual([]);
        expect(await store.readDocs({ kind: "kv", ids: [] })).toEqual({ docs: [], cursor: null });
        expect(await events()).toEqual([]);
      },
    ],
    [
      "calls made at once in one flush are each answered as if they had come one after the other",
      async ({ store, submit, read }) => {
        const calls = Array.from({ length: 20 }, (_, index) => submit(aJob({ id: `j${index}` })));
        const claimed = store.claim({
          owner: "w",
          leaseMs: 9,
          offers: [{ routes: [aRoute()], max: 50 }],
        });
        const answers = await Promise.all(calls);
        expect(answers.every(([answer]) => answer?.kind === "ok")).toBe(true);
        expect((await claimed).jobs.map(({ id }) => id)).toEqual(calls.map((_, index) => `j${index}`));
        expect((await read("j19")).seq).toBe(20);
      },
    ],
  ],
};
