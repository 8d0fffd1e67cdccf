/**
 * Every hint is lost, on every store: the periodic calls of a process alone must bring jobs, cancels, settings and
 * orders. The two sides are Millraces on connections of their own, neither of which hears anything. That all of it
 * comes within 1.2 s is checked on the virtual clock (test/simulation/promptness.test.ts). Over several partitions a
 * claim trusts what it heard of each, unless the store knows that it cannot listen: that is the last case.
 */
import { describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import { nodePlatform as platform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { handler } from "../../src/worker/handler.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { until } from "../support/until.ts";
import { usePlaces } from "../support/servers/use-places.ts";
import { useOwnRedis } from "../support/servers/use-redis.ts";
import type { Place } from "../support/servers/use-places.ts";

const closeLater = closeAfterEach();
// Over partitions a claim trusts the hints of each partition for longer: docs/decisions/0038.
const places = usePlaces().filter(([title]) => !title.includes("partitions"));

const unheard = (store: Store): Store => ({ ...store, watch: () => () => undefined });

async function twoSides(place: Place): Promise<{ operator: Millrace; other: Millrace }> {
  const open = place();
  const other = closeLater(millOn(unheard(await open())));
  const operator = closeLater(millOn(unheard(await open()), { duties: false }));
  return { operator, other };
}

/** @param forMs so long one job is enqueued behind the other. */
async function expectStarts(operator: Millrace, other: Millrace, forMs = 0): Promise<void> {
  const fromUs = platform.monotonicUs();
  const starts = new Set<number>();
  const quick = job<number>("quick");
  await other.work([handler(quick, async ({ input }) => void starts.add(input))]);
  const delays = [0, 100, 700];
  let count = 0;
  for (; count < delays.length || platform.monotonicUs() < fromUs + forMs * 1000; count++) {
    await operator.enqueue(quick, count, { delay: delays[count % delays.length] ?? 0 });
    await until("the job has started", () => starts.has(count));
  }
  expect(starts.size).toBe(count);
}

describe.each(places)("with all hints lost, on %s", (_title, place) => {
  test("jobs start, also those that become due", async () => {
    const { operator, other } = await twoSides(place);
    await expectStarts(operator, other);
  });

  test("a cancel reaches a handler that runs, and a setting a worker that is at work", async () => {
    const { operator, other } = await twoSides(place);
    const cancelled = Promise.withResolvers<void>();
    const endless = job<null>("endless", { queue: "busy" });
    let running = 0;
    await other.work(
      [
        handler(endless, async ({ signal }) => {
          running += 1;
          await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
          cancelled.resolve();
          signal.throwIfAborted();
        }),
      ],
      { queues: { busy: 1 } },
    );
    const { id } = await operator.enqueue(endless, null);
    await operator.enqueue(endless, null);
    await until("it runs", () => running === 1);
    await operator.queues.set("busy", { localConcurrency: 2 });
    await until("the second runs, too", () => running === 2);
    expect(await operator.jobs.cancel(id)).toBe("signalled");
    await cancelled.promise;
    await operator.jobs.cancel({ queue: "busy" });
  });

  test("an idle worker hears an order", async () => {
    const { operator, other } = await twoSides(place);
    const worker = await other.work([handler(job("any"), async () => undefined)]);
    await until("it is listed", async () => (await operator.workers.list()).length === 1);
    await operator.workers.stop(worker.id);
    await worker.stopped;
    expect(await operator.workers.list()).toEqual([]);
  });
});

describe("on 16 partitions of Redis, to which a process cannot listen", () => {
  const redis = useOwnRedis();
  const partitions = 16;
  /** Longer than it takes until hints of partitions are trusted (store/partitioned/partitioned-store.ts). */
  const trustedAfterMs = 12_000;

  test("jobs start, also those that become due", async () => {
    await redis.admin.call("ACL", "SETUSER", "unheard", "on", ">word", "~*", "&*", "+@all", "-subscribe");
    const { port } = new URL(redis.server.url);
    const operator = redis.closeLater(millOn(await redis.open({ partitions }), { duties: false }));
    const unheard = await redis.open({ partitions, url: `redis://unheard:word@127.0.0.1:${port}` });
    const other = redis.closeLater(millOn(unheard));
    await expectStarts(operator, other, trustedAfterMs);
  });
});
