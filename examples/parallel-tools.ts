// Tools that run side by side, each as a job of its own with its own retries. The run waits without a slot, and a crash
// repeats none that has ended.
import { handler, job, Millrace } from "millrace";

const weather = job<{ city: string }, string>("weather");
const agent = job<{ cities: readonly string[] }, readonly string[]>("agent", { durable: { version: 1 } });

const mill = await Millrace.open("sqlite::memory:", { log: false });
await mill.work([
  handler(weather, async ({ input }) => `sun in ${input.city}`),
  handler(agent, async ({ input, step }) =>
    step.each(
      "tool",
      input.cities,
      (city) => city,
      (city, own) => own.invoke(weather, { city }),
      { concurrency: 2 },
    ),
  ),
]);

const run = await mill.enqueue(agent, { cities: ["Oslo", "Rome", "Cairo"] });
console.log(await run.result({ timeout: "10s" }));
await mill.close();
