// A saga: each step says how it is undone. When the run fails, the recorded steps are undone, the last one first.
import { handler, job, Millrace, Unrecoverable } from "millrace";

const trip = job<{ to: string }>("trip", { durable: { version: 1 }, retry: { attempts: 1 } });

const mill = await Millrace.open("sqlite::memory:", { log: false });
await mill.work([
  handler(trip, async ({ input, step }) => {
    await step.run("flight", () => console.log(`flight to ${input.to} booked`), {
      undo: () => console.log("flight cancelled"),
    });
    await step.run("hotel", () => console.log("hotel booked"), {
      undo: () => console.log("hotel cancelled"),
    });
    await step.run("car", () => {
      throw new Unrecoverable("no car left");
    });
  }),
]);

const run = await mill.enqueue(trip, { to: "Lisbon" });
await run.result({ timeout: "10s" }).catch((error: Error) => console.log(error.message.replace(/^.*: /, "")));
await mill.close();
