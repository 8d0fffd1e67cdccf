// A run that sleeps for a week, on the clock of the test: nothing waits in real time, and nothing is mocked.
import { handler, job } from "millrace";
import { testMillrace } from "millrace/testing";

const onboard = job<{ email: string }, string>("onboard", { durable: { version: 1 } });

const t = await testMillrace({
  handlers: [
    handler(onboard, async ({ input, step }) => {
      await step.run("welcome", () => console.log(`welcome, ${input.email}`));
      await step.sleep("a week", "7d");
      return step.run("ask", () => `how was your week, ${input.email}?`);
    }),
  ],
});

await t.enqueue(onboard, { email: "ann@example.com" });
await t.drain();
console.log("sleeping:", t.completed(onboard).length === 0);
await t.clock.advance("7d");
await t.drain();
console.log(t.completed(onboard).map(({ result }) => result));
await t.close();
