// Limits on steps: their permits are held while the code of the step runs, over all runs.
import { expect, test } from "vitest";
import { handler, job, limit, Millrace } from "../../src/index.ts";

test("a step takes permits of its limits for as long as its code runs, by a key of the run's input", async () => {
  const api = limit("api", { perKey: { concurrency: 1 } });
  let [running, most] = [0, 0];
  const called = job<{ tenant: string }, null>("called", { durable: { version: 1 } });
  const mill = await Millrace.open("sqlite::memory:", { log: false });
  await mill.work([
    handler(called, async ({ step }) => {
      const call = () =>
        step.run(
          "call",
          async () => {
            most = Math.max(most, ++running);
            await new Promise((resolve) => setImmediate(resolve));
            running -= 1;
          },
          { limits: [api.use({ key: (input: { tenant: string }) => input.tenant })] },
        );
      await Promise.all([call(), call(), call()]);
      return null;
    }),
  ]);
  const runs = await mill.enqueueMany([1, 2].map(() => called.with({ tenant: "a" })));
  await Promise.all(runs.map((run) => run.result()));
  expect(most).toBe(1);
  await mill.close();
});
