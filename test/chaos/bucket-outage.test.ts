/** The storage of a bucket is away while a worker runs: what is told to whom, and that all goes on by itself. */
import { expect, test } from "vitest";
import { job } from "../../src/engine/submit/job-definition.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { openBucketStore } from "../../src/stores/bucket/bucket-store.ts";
import { MemoryBucket } from "../../src/stores/bucket/objects/memory.ts";
import { handler } from "../../src/worker/handler.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { faultyObjects } from "../support/faulty-objects.ts";
import { hangMs } from "../support/hang-ms.ts";
import { millOn } from "../support/mill-on.ts";
import { until } from "../support/until.ts";

const closeLater = closeAfterEach();
const codeOf = (calling: Promise<unknown>): Promise<unknown> =>
  calling.then(
    () => "ok",
    ({ code, outcome }: { code: string; outcome: string }) => `${code} ${outcome}`,
  );

test.each(["away", "hung"] as const)(
  "while the storage is %s nobody is told what is not so; then the handlers, the worker and the callers go on",
  async (state) => {
    const bucket = new MemoryBucket();
    const objects = faultyObjects(bucket.open());
    const callTimeoutMs = 1000;
    const store = await openBucketStore({ objects, platform: nodePlatform, callTimeoutMs });
    const mill = closeLater(millOn(store, { giveUp: 100 }));
    const [slow, quick] = [job<null, string>("slow"), job<number>("quick")];
    const runs: string[] = [];
    const ends = Promise.withResolvers<void>();
    let wasAborted = false;
    const worker = await mill.work([
      handler(slow, async (context) => {
        runs.push(context.id);
        context.signal.addEventListener("abort", () => (wasAborted = true));
        await ends.promise;
        return "survived";
      }),
      handler(quick, (context) => void runs.push(context.id)),
    ]);
    const handle = await mill.enqueue(slow, null);
    await until("the slow handler runs", () => runs.length === 1);
    objects.state = state;
    expect(await codeOf(mill.enqueue(quick, 1, { id: "doubtful" }))).toBe("outcome-unknown unknown");
    if (state === "away")
      await until(
        "new calls are refused",
        async () => (await codeOf(mill.enqueue(quick, 2))) === "store-unavailable did-not-happen",
      );
    objects.heal();
    await until("calls are answered again", async () => (await codeOf(mill.enqueue(quick, 3))) === "ok");
    ends.resolve();
    expect(await handle.result({ timeout: hangMs })).toBe("survived");
    expect(wasAborted).toBe(false);
    // A repeat with the same id finds what the call of unknown outcome made.
    const repeated = await mill.enqueue(quick, 1, { id: "doubtful" });
    await repeated.result({ timeout: hangMs });
    await until("everything has ended", async () => {
      const stateCounts = await store.countJobs();
      return stateCounts.every((stateCount) => stateCount.state === "completed");
    });
    expect(new Set(runs).size).toBe(runs.length);
    expect((await worker.stop()).lost).toBeUndefined();
  },
);
