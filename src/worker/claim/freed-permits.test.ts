/**
 * What waits for a permit is claimed in the flush in which the job that held it is settled, in one commit with its
 * settle.
 */
import { expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { runUntil } from "../../../test/support/virtual/virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import type { JobOptions } from "../../engine/submit/job-definition.ts";
import { limit } from "../../engine/limits/limit-definition.ts";
import type { Store } from "../../store/store.ts";
import { openSqliteStore } from "../../stores/sqlite/sqlite-store.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import { handler } from "../handler.ts";

const jobs = 30;
const atOnce = 3;

type Bounds = Pick<JobOptions<number>, "limits" | "group">;

const bounded: readonly (readonly [title: string, options: Bounds])[] = [
  ["a limit", { limits: [limit("three", { concurrency: atOnce })] }],
  [
    "a limit by key",
    { limits: [limit("keyed", { perKey: { concurrency: atOnce } }).use({ key: () => "k" })] },
  ],
  ["a group", { group: { key: () => "k", concurrency: atOnce } }],
];

test.each(bounded)("claims and settles of jobs under %s share their flushes", async (_, options) => {
  const platform = createVirtualPlatform();
  const store = await openSqliteStore({ path: ":memory:", platform });
  const run = <Value>(promise: Promise<Value>): Promise<Value> => runUntil(platform, promise);
  let settles = 0;
  let claimsAlone = 0;
  /** What is called at the end of one flush. */
  let called: Set<string> | null = null;
  const note = (operation: string): void => {
    if (called === null) {
      const ofFlush = (called = new Set<string>());
      queueMicrotask(() => {
        called = null;
        if (!ofFlush.has("settle")) claimsAlone += 1;
      });
    }
    called.add(operation);
  };
  const settleIfLeased: Store["settleIfLeased"] = (request) => {
    settles += 1;
    note("settle");
    return store.settleIfLeased(request);
  };
  const claim: Store["claim"] = (request) => {
    note("claim");
    return store.claim(request);
  };
  const mill = millOn({ ...store, settleIfLeased, claim }, {}, platform);
  const quick = job<number, void>("quick", options);
  await run(mill.enqueueMany(Array.from({ length: jobs }, (_each, index) => quick.with(index))));
  const all = Promise.withResolvers<void>();
  let ended = 0;
  const handlers = [
    handler(quick, async () => {
      if (++ended === jobs) all.resolve();
    }),
  ];
  const worker = await run(mill.work(handlers, { concurrency: 100 }));
  await run(all.promise);
  await run(worker.stop());
  await run(mill.close());
  expect(settles).toBe(jobs / atOnce);
  // The first one, and those of the slow poll.
  expect(claimsAlone).toBeLessThan(settles / 2);
});
