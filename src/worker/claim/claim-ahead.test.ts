/**
 * When the next claim goes out: with the jobs of the last one run, or ahead of them on a store that works beside this
 * process.
 */
import { describe, expect, test } from "vitest";
import { runUntil } from "../../../test/support/virtual/virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import type { Store } from "../../store/store.ts";
import { openSqliteStore } from "../../stores/sqlite/sqlite-store.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import { handler } from "../handler.ts";
import { millOn } from "../../../test/support/mill-on.ts";

const quick = job<number, void>("quick");
const jobs = 10_000;

/**
 * Works off all jobs; answers how many claims went out while nothing of the last answer had begun, and how many were
 * ever in flight at once.
 */
async function drain(claimsAhead: boolean): Promise<{ ahead: number; inFlightMax: number; runs: number[] }> {
  const platform = createVirtualPlatform();
  const store = await openSqliteStore({ path: ":memory:", platform });
  const runs = Array.from({ length: jobs }, () => 0);
  let begun = 0;
  let taken = 0;
  let inFlight = 0;
  let inFlightMax = 0;
  let ahead = 0;
  let last = 0;
  const claim: Store["claim"] = async (request) => {
    // A driver hands its connection out some steps after the call; by then the jobs must not have begun either.
    for (let steps = 0; steps < 50; steps++) await Promise.resolve();
    if (last > 0 && taken - begun >= last) ahead += 1;
    inFlightMax = Math.max(inFlightMax, (inFlight += 1));
    await new Promise<void>((resolve) => void platform.setTimer(5, resolve));
    const answer = await store.claim(request);
    inFlight -= 1;
    last = answer.jobs.length;
    taken += last;
    return answer;
  };
  const mill = millOn({ ...store, claim, claimsAhead }, {}, platform);
  const run = <Value>(promise: Promise<Value>): Promise<Value> => runUntil(platform, promise);
  await run(mill.enqueueMany(runs.map((_, index) => quick.with(index))));
  const all = Promise.withResolvers<void>();
  const handlers = [
    handler(quick, async ({ input }) => {
      runs[input] = (runs[input] ?? 0) + 1;
      if (++begun === jobs) all.resolve();
    }),
  ];
  const worker = await run(mill.work(handlers, { concurrency: 100 }));
  await run(all.promise);
  await run(worker.stop());
  await run(mill.close());
  return { ahead, inFlightMax, runs };
}

describe("the next claim", () => {
  test("goes out before the jobs of the last one are run where the store works beside this process, never two at once", async () => {
    const { ahead, inFlightMax, runs } = await drain(true);
    expect(ahead).toBeGreaterThan(0);
    expect(inFlightMax).toBe(1);
    expect(new Set(runs)).toEqual(new Set([1]));
  });

  test("waits for the end of the flush on a store inside this process, so that it shares a commit with the settles", async () => {
    const { ahead, inFlightMax, runs } = await drain(false);
    expect(ahead).toBe(0);
    expect(inFlightMax).toBe(1);
    expect(new Set(runs)).toEqual(new Set([1]));
  });
});
