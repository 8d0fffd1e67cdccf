// A run keeps the version of the code that it began with. Here a run begins under version 1 and waits. Then version 2
// is deployed with the old code beside it. The old run goes on as it began, a new one takes the new way.
import { handler, job, Millrace } from "millrace";
import { z } from "zod";

const signals = { printed: z.object({ pages: z.number() }) };
const input = z.object({ month: z.string() });
const reportV1 = job("report", { input, signals, durable: { version: 1 } });
const report = job("report", { input, signals, durable: { version: 2 } });

const mill = await Millrace.open("sqlite::memory:", { log: false });
const before = await mill.work([
  handler(reportV1, async ({ step }) => {
    const { value } = await step.waitFor("printed");
    return step.run("render", () => `version 1 rendered ${value.pages} pages`);
  }),
]);
const old = await mill.enqueue(reportV1, { month: "May" });
while ((await mill.jobs.get(old.id))?.state !== "suspended") await new Promise((go) => setTimeout(go, 10));
await before.stop();

const made = handler(
  report,
  async ({ step }) => {
    const text = await step.run("collect", () => "version 2 collected first");
    const { value } = await step.waitFor("printed");
    return step.run("render", () => `${text}, and rendered ${value.pages} pages`);
  },
  {
    older: {
      1: async ({ step }) => {
        const { value } = await step.waitFor("printed");
        return step.run("render", () => `version 1 rendered ${value.pages} pages`);
      },
    },
  },
);
console.log("broken by the deploy:", (await mill.runs.check([made])).broken.length);
await mill.work([made]);
const fresh = await mill.enqueue(report, { month: "June" });
for (const { id } of [old, fresh]) await mill.signal(report, id, "printed", { pages: 3 });
console.log(await old.result({ timeout: "10s" }));
console.log(await fresh.result({ timeout: "10s" }));
await mill.close();
