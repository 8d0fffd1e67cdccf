/** What jobs under a limit ask of the store: the claim behind the settle takes the permits that it gives back. */
import { describe, expect, test } from "vitest";
import { millOn } from "../../test/support/mill-on.ts";
import { runUntil } from "../../test/support/virtual-mill.ts";
import { job } from "../engine/definition.ts";
import { limit } from "../engine/limit.ts";
import type { Store } from "../store/store.ts";
import { openSqliteStore } from "../stores/sqlite/sqlite-store.ts";
import { createVirtualPlatform } from "../testing/virtual-platform.ts";
import { handler } from "./handler.ts";

const callMs = 5;

interface Drained {
  /** How many jobs each settle call carried. */
  readonly settles: readonly number[];
  /** How many claims were sent while a settle was on its way. */
  readonly claimsBehind: number;
}

/** Works off jobs of a limit on a store whose calls take a while and are done in their order. */
async function drain(cap: number, jobs: number, more: Partial<Store>): Promise<Drained> {
  const platform = createVirtualPlatform();
  const store = await openSqliteStore({ path: ":memory:", platform });
  const settles: number[] = [];
  let [settling, claimsBehind] = [0, 0];
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
      return later(() => store.claim(request));
    },
    settleIfLeased(given) {
      settles.push(given.length);
      settling += 1;
      return later(() => store.settleIfLeased(given)).finally(() => (settling -= 1));
    },
  };
  const mill = millOn(slow, { metrics: false }, platform);
  const run = <Value>(promise: Promise<Value>): Promise<Value> => runUntil(platform, promise);
  const limited = job<number, void>("limited", { limits: [limit("few", { concurrency: cap })] });
  await run(mill.enqueueMany(Array.from({ length: jobs }, (_, index) => limited.with(index))));
  const all = Promise.withResolvers<void>();
  let ran = 0;
  const handlers = [handler(limited, async () => void (++ran === jobs && all.resolve()))];
  const worker = await run(mill.work(handlers, { concurrency: 100 }));
  await run(all.promise);
  await run(worker.stop());
  await run(mill.close());
  return { settles, claimsBehind };
}

describe("jobs under a limit", () => {
  test("of one at a time are claimed one behind the other, each with the settle of the one before", async () => {
    const { settles, claimsBehind } = await drain(1, 20, {});
    expect(settles).toEqual(Array.from({ length: 20 }, () => 1));
    expect(claimsBehind).toBeGreaterThanOrEqual(19);
  });

  test("settle in parts where the store works beside this process: one part is run while another is with the store", async () => {
    const { settles } = await drain(200, 4000, { claimsAhead: true });
    expect(Math.max(...settles)).toBeLessThan(200);
  });

  test("wait for the hint of their settle where a claim may overtake it", async () => {
    const { settles, claimsBehind } = await drain(1, 20, { claimsAhead: true, claimsOvertake: true });
    expect(settles.length).toBe(20);
    expect(claimsBehind).toBe(0);
  });
});
