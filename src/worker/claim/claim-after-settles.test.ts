/**
 * A claim that goes out ahead of its jobs leaves behind the settles of those that have ended in the same flush: it
 * would else meet permits that are still held.
 */
import { expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { runUntil } from "../../../test/support/virtual/virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import type { Store } from "../../store/store.ts";
import { openSqliteStore } from "../../stores/sqlite/sqlite-store.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import { handler } from "../handler.ts";

const jobs = 5000;
const group = { key: (index: number) => `key ${index}`, concurrency: 1 };

test("a claim that goes ahead is sent behind the settles of jobs with permits that have ended in its flush", async () => {
  const platform = createVirtualPlatform();
  const store = await openSqliteStore({ path: ":memory:", platform });
  const [run, all] = [
    <Value>(promise: Promise<Value>): Promise<Value> => runUntil(platform, promise),
    Promise.withResolvers<void>(),
  ];
  let [taken, ended, settled, claims, early] = [0, 0, 0, 0, 0];
  let hasEnded = (): void => {};
  const claim: Store["claim"] = async (request) => {
    claims += 1;
    if (settled < ended) early += 1;
    const answer = await store.claim(request);
    // The answer comes when the jobs of the last one have ended, and their settles wait for the end of the flush.
    if (ended < taken) await new Promise<void>((resolve) => (hasEnded = resolve));
    for (let steps = 0; steps < 50; steps++) await Promise.resolve();
    taken += answer.jobs.length;
    return answer;
  };
  const settleIfLeased: Store["settleIfLeased"] = (settles) => {
    settled += settles.length;
    return store.settleIfLeased(settles);
  };
  const mill = millOn({ ...store, claim, settleIfLeased, claimsAhead: true }, {}, platform);
  const alone = job<number, void>("alone", { group });
  await run(mill.enqueueMany(Array.from({ length: jobs }, (_, index) => alone.with(index))));
  const handlers = [
    handler(alone, async () => {
      if (++ended === taken) hasEnded();
      if (ended === jobs) all.resolve();
    }),
  ];
  const worker = await run(mill.work(handlers, { concurrency: 100 }));
  await run(all.promise);
  await run(worker.stop());
  await run(mill.close());
  expect(claims).toBeGreaterThan(10);
  expect(early).toBe(0);
});
