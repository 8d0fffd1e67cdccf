/** What jobs under a limit ask of the store: the claim behind the settle takes the permits that it gives back. */
import { describe, expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { runUntil } from "../../../test/support/virtual/virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { limit } from "../../engine/limits/limit-definition.ts";
import type { Store } from "../../store/store.ts";
import { openSqliteStore } from "../../stores/sqlite/sqlite-store.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import { handler } from "../handler.ts";

const callMs = 5;

interface Given {
  readonly cap: number;
  readonly jobs: number;
  readonly store?: Partial<Store>;
  /** When N have run, the cap becomes another one. */
  readonly raised?: { readonly after: number; readonly to: number };
}

interface Drained {
  /** How many jobs each settle call carried. */
  readonly settles: readonly number[];
  /** How many claims were sent while a settle was on its way. */
  readonly claimsBehind: number;
  /** How long after the cap was raised more jobs than before were claimed and not settled. */
  readonly raisedMs: number | null;
}

/** Works off jobs of a limit on a store whose calls take a while and are done in their order. */
async function drain({ cap, jobs, store: more, raised }: Given): Promise<Drained> {
  const platform = createVirtualPlatform();
  const store = await openSqliteStore({ path: ":memory:", platform });
  const settles: number[] = [];
  let [settling, claimsBehind, inHand] = [0, 0, 0];
  let raisedAt = Number.POSITIVE_INFINITY;
  let raisedMs: number | null = null;
  let last: Promise<unknown> = Promise.resolve();
  const later = async <Answer>(call: () => Promise<Answer>): Promise<Answer> => {
    const before = last;
    const answer = (async () => {
      await before;
      await new Promise<void>((resolve) => void platform.setTimer(callMs, resolve));
      return call();
    })();
    last = answer;
    return answer;
  };
  const slow: Store = {
    ...store,
    ...more,
    claim(request) {
      if (settling > 0) claimsBehind += 1;
      return later(async () => {
        const answer = await store.claim(request);
        inHand += answer.jobs.length;
        if (inHand > cap) raisedMs ??= platform.now() - raisedAt;
        return answer;
      });
    },
    settleIfLeased(given) {
      settles.push(given.length);
      settling += 1;
      return later(async () => {
        inHand -= given.length;
        return store.settleIfLeased(given);
      }).finally(() => (settling -= 1));
    },
  };
  const mill = millOn(slow, { metrics: false }, platform);
  const run = <Value>(promise: Promise<Value>): Promise<Value> => runUntil(platform, promise);
  const limited = job<number, void>("limited", { limits: [limit("few", { concurrency: cap })] });
  await run(mill.enqueueMany(Array.from({ length: jobs }, (_, index) => limited.with(index))));
  const all = Promise.withResolvers<void>();
  let ran = 0;
  const handlers = [
    handler(limited, async () => {
      if (++ran === jobs) all.resolve();
      if (ran === raised?.after) {
        await mill.limits.edit("few", { concurrency: raised.to });
        raisedAt = platform.now();
      }
    }),
  ];
  const worker = await run(mill.work(handlers, { concurrency: 100 }));
  await run(all.promise);
  await run(worker.stop());
  await run(mill.close());
  return { settles, claimsBehind, raisedMs };
}

describe("jobs under a limit", () => {
  test("of one at a time are claimed one behind the other, each with the settle of the one before", async () => {
    const { settles, claimsBehind } = await drain({ cap: 1, jobs: 20 });
    expect(settles).toEqual(Array.from({ length: 20 }, () => 1));
    expect(claimsBehind).toBeGreaterThanOrEqual(19);
  });

  test("come in two half-batches where the store works beside this process: one is run while the other is with the store", async () => {
    const { settles, claimsBehind } = await drain({ cap: 200, jobs: 8000, store: { claimsAhead: true } });
    expect(settles.filter((count) => count === 100).length).toBeGreaterThan(60);
    expect(claimsBehind).toBeGreaterThan(60);
  });

  test("are claimed by a raised cap at once, although their half-batches were those of the cap before", async () => {
    const raised = { after: 4000, to: 400 };
    const { raisedMs } = await drain({ cap: 200, jobs: 8000, store: { claimsAhead: true }, raised });
    expect(raisedMs).toBeGreaterThanOrEqual(0);
    expect(raisedMs).toBeLessThan(20 * callMs);
  });

  test("come in one batch where calls and handlers take turns: two would be two commits", async () => {
    const { settles } = await drain({ cap: 200, jobs: 8000 });
    expect(settles.filter((count) => count === 200).length).toBeGreaterThan(30);
  });

  test("wait for the hint of their settle where a claim may overtake it", async () => {
    const { settles, claimsBehind } = await drain({
      cap: 1,
      jobs: 20,
      store: { claimsAhead: true, claimsOvertake: true },
    });
    expect(settles.length).toBe(20);
    expect(claimsBehind).toBe(0);
  });
});
