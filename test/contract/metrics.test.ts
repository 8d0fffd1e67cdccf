/** Metrics on real stores: several processes count, anybody reads all of it, and a roll-up changes nothing of it. */
import { describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { addUpTotals } from "../../src/engine/metrics/add-up-totals.ts";
import { rollUpMinutes } from "../../src/engine/metrics/roll-up.ts";
import { handler, job } from "../../src/index.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { parsePrometheus } from "../support/parse-prometheus.ts";
import { until } from "../support/until.ts";
import { usePlaces } from "../support/servers/use-places.ts";

const places = usePlaces();

describe.each(places)("on %s", (title, place) => {
  const closeLater = closeAfterEach();

  test("the oldest ready job of each queue is measured, whatever lane or limit it waits in", async () => {
    const open = place();
    const mill = closeLater(millOn(await open()));
    const store = closeLater(await open());
    const enqueue = async (queue: string, options: object = {}): Promise<string> =>
      (await mill.enqueue(job<null>("wait", { queue }), null, options)).id;
    const oldest = [await enqueue("grouped", { group: "a" }), await enqueue("plain", { priority: 5 })];
    await enqueue("grouped", { group: "b" });
    await enqueue("plain", { priority: 5 });
    await enqueue("later", { delay: "1h" });
    await until("they have waited", async () => {
      const gauges = await mill.metrics.queues();
      return gauges.every(({ queue, oldestReadyMs }) => queue === "later" || (oldestReadyMs ?? 0) >= 20);
    });
    // By the store's own clock, before and after.
    const agesMs = async (): Promise<number[]> => {
      const [jobs, { now }] = await Promise.all([store.readJobs(oldest), store.describe()]);
      return jobs.map((each) => now - each!.createdAt);
    };
    const before = await agesMs();
    const gauges = new Map((await mill.metrics.queues()).map((each) => [each.queue, each.oldestReadyMs]));
    const after = await agesMs();
    expect(gauges.get("later")).toBeNull();
    for (const [at, queue] of ["grouped", "plain"].entries()) {
      expect(gauges.get(queue)).toBeGreaterThanOrEqual(before[at]!);
      expect(gauges.get(queue)).toBeLessThanOrEqual(after[at]!);
    }
  });

  test("two processes count, a third reads, and nothing changes when it is rolled up twice at once", async () => {
    const open = place();
    const mill = async (): Promise<Millrace> => closeLater(millOn(await open()));
    const [submits, works, reads] = await Promise.all([mill(), mill(), mill()]);
    const send = job<number>('send "it"\\', { queue: "mail {1}" });
    const follow = job<null>("follow", { queue: "mail {1}" });
    await works.work([
      handler(send, ({ input, enqueue }) => {
        if (input === 0) enqueue(follow, null);
      }),
      handler(follow, () => undefined),
    ]);
    const handles = await submits.enqueueMany(Array.from({ length: 40 }, (_, n) => send.with(n)));
    await Promise.all(handles.map((handle) => handle.result()));
    // Both write what they have counted so far.
    await Promise.all([submits.metrics.read(), works.metrics.read()]);
    const options = { from: Date.now() - 600_000, to: Date.now() + 60_000, step: "30m" } as const;
    const before = await reads.metrics.read(options);
    const { all } = before.series.find(({ name }) => name === send.name)!;
    expect(all).toMatchObject({ enqueued: 40, attempts: 40, outcomes: { completed: 40 } });
    expect(before.series.find(({ name }) => name === "follow")?.all.enqueued).toBe(1);
    expect(all.total!.p50Ms).toBeGreaterThan(0);
    const store = closeLater(await open());
    const later = Date.now() + 3_600_000;
    await Promise.all([rollUpMinutes(store, later, 1000), rollUpMinutes(store, later, 1000)]);
    await rollUpMinutes(store, later, 1000);
    expect((await reads.metrics.read(options)).series).toEqual(before.series);
    await Promise.all([addUpTotals(store, later, 1000), addUpTotals(store, later, 1000)]);
    const families = parsePrometheus(await reads.metrics.prometheus());
    const counted = (name: string): number =>
      families
        .find((family) => family.name === name)!
        .samples.filter(({ labels }) => labels["name"] === send.name)
        .reduce((sum, { value }) => sum + value, 0);
    expect(counted("millrace_enqueued_total")).toBe(40);
    expect(counted("millrace_attempts_total")).toBe(40);
    const [size] = families.find(({ name }) => name === "millrace_store_size_bytes")!.samples;
    expect(size!.value).toBeGreaterThan(4096);
    for (const { connections } of await reads.metrics.store())
      if (title !== "sqlite") expect(connections).toBeGreaterThan(0);
    expect(families.find(({ name }) => name === "millrace_queue_jobs")?.samples).toMatchObject([
      { labels: { queue: "mail {1}", state: "completed" }, value: 41 },
    ]);
  });
});
