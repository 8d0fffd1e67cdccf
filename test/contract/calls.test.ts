/**
 * Request and reply on real stores, with the caller and the worker on connections of their own: answers come by the
 * hint of the end, all calls of a process share their reads, and a caller who gives up stops even a running handler.
 */
import { describe, expect, test } from "vitest";
import { handler, job } from "../../src/index.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { usePlaces } from "../support/servers/use-places.ts";
import { hangMs } from "../support/hang-ms.ts";

const places = usePlaces();
const double = job<number, number>("double");
const hang = job<number, void>("hang");

describe.each(places)("on %s", (_title, place) => {
  const closeLater = closeAfterEach();

  test("a hundred calls at once are answered, each with its own result and one read of its job", async () => {
    const open = place();
    const worker = closeLater(millOn(await open()));
    const store = await open();
    let reads = 0;
    let idsRead = 0;
    const readJobs = store.readJobs.bind(store);
    store.readJobs = (ids) => ((reads += 1), (idsRead += ids.length), readJobs(ids));
    const caller = closeLater(millOn(store));
    await worker.work([handler(double, async ({ input }) => input * 2)], { concurrency: 20 });
    expect(await caller.call(double, 0, { timeout: hangMs })).toBe(0);
    [reads, idsRead] = [0, 0];
    const numbers = Array.from({ length: 100 }, (_, at) => at);
    const answers = await Promise.all(numbers.map((n) => caller.call(double, n, { timeout: hangMs })));
    expect(answers).toEqual(numbers.map((n) => n * 2));
    // On a loaded machine the slow look may come once before the hints.
    expect(idsRead).toBeLessThanOrEqual(300);
    expect(reads).toBeLessThan(100);
  });

  test("a caller who gives up stops the handler that runs for it", async () => {
    const open = place();
    const [worker, caller] = [closeLater(millOn(await open())), closeLater(millOn(await open()))];
    const started = Promise.withResolvers<void>();
    const stopped = Promise.withResolvers<unknown>();
    await worker.work([
      handler(hang, async ({ signal }) => {
        started.resolve();
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        stopped.resolve((signal.reason as { reason?: unknown }).reason);
        throw signal.reason;
      }),
    ]);
    const controller = new AbortController();
    const call = caller.call(hang, 1, { cancel: true, signal: controller.signal, timeout: hangMs });
    await started.promise;
    controller.abort();
    await expect(call).rejects.toThrow(expect.objectContaining({ code: "aborted" }));
    expect(await stopped.promise).toBe("cancel");
  });
});
