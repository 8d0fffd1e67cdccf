import { afterEach, beforeEach, expect, test } from "vitest";
import { parsePrometheus } from "../../../test/support/parse-prometheus.ts";
import { millOn } from "../../../test/support/mill-on.ts";
import { runUntil } from "../../../test/support/virtual/virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { partitionedStore } from "../../store/partitioned/partitioned-store.ts";
import type { Store } from "../../store/store.ts";
import { openSqliteStore } from "../../stores/sqlite/sqlite-store.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import type { VirtualPlatform } from "../../testing/virtual-platform.ts";
import { handler } from "../../worker/handler.ts";
import type { Millrace } from "../millrace.ts";

const partitions = 4;
const quick = job<null>("quick");
let platform: VirtualPlatform;
let mill: Millrace;
/** The partition that fails; null for none. */
let failing: number | null;

const run = <Value>(promise: Promise<Value>): Promise<Value> => runUntil(platform, promise);
const advance = (ms: number): Promise<void> => platform.time.advance(ms * 1000);

beforeEach(async () => {
  platform = createVirtualPlatform();
  failing = null;
  const open = async (_: unknown, number: number): Promise<Store> => {
    const store = await openSqliteStore({ path: ":memory:", platform });
    const broken = (): Promise<never> => Promise.reject(new Error("broken"));
    const breaking: Partial<Store> = {
      promoteDue: (request) => (failing === number ? broken() : store.promoteDue(request)),
      claim: (request) => (failing === number ? broken() : store.claim(request)),
    };
    return { ...store, ...breaking };
  };
  const stores = await Promise.all(Array.from({ length: partitions }, open));
  mill = millOn(partitionedStore(stores, { platform }), {}, platform);
  await run(mill.work([handler(quick, async () => undefined)]));
});
afterEach(() => run(mill.close()));

test("a duty's work is shown by partition, and for an unreachable one how long ago it was reached", async () => {
  const enqueueMany = async (count: number): Promise<void> => {
    for (let at = 0; at < count; at++) await run(mill.enqueue(quick, null, { delay: 500 }));
    await advance(10_000);
  };
  await enqueueMany(40);
  failing = 2;
  for (let round = 0; round < 6; round++) await enqueueMany(4);
  await advance(21_000);
  const views = await run(mill.duties.list());
  const promote = views.find(({ duty }) => duty === "promote");
  expect(promote?.missing).toEqual([2]);
  const parts = promote?.partitions ?? [];
  expect(parts.map(({ partition }) => partition)).toEqual([0, 1, 2, 3]);
  expect(parts.reduce((sum, { processed }) => sum + processed, 0)).toBe(promote?.processed);
  const busy = parts.filter(({ processed }) => processed > 0).length;
  expect(busy).toBeGreaterThan(1);
  for (const { partition, errors, lagMs, quarantined } of parts) {
    expect(quarantined).toBe(0);
    expect(errors > 0).toBe(partition === 2);
    if (partition === 2) expect(lagMs).toBeGreaterThan(20_000);
    else expect(lagMs).toBeLessThan(20_000);
  }
  // A count is split over its partitions, so that a sum over labels is the count.
  const families = parsePrometheus(await run(mill.metrics.prometheus()));
  const samples = families.find(({ name }) => name === "millrace_duty_processed_total")?.samples ?? [];
  const own = samples.filter(({ labels }) => labels["duty"] === "promote");
  expect(own.reduce((sum, { value }) => sum + value, 0)).toBe(promote?.processed);
  expect(own.filter(({ labels }) => labels["partition"] !== undefined)).toHaveLength(busy);
  const lags = families.find(({ name }) => name === "millrace_duty_lag_seconds")?.samples ?? [];
  const late = lags.filter(({ labels }) => labels["duty"] === "promote" && labels["partition"] !== undefined);
  expect(late.map(({ labels }) => labels["partition"])).toEqual(["2"]);
});
