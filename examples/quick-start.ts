// Millrace in 25 lines: define a job, run it, wait for its result. The job survives a crash at any point, because it
// lives in a file.
//
//   node --conditions=millrace-source examples/quick-start.ts
//
// The flag is for this repository; with the package installed it is not needed.
import { handler, job, Millrace, Unrecoverable } from "millrace";

const sendWelcome = job<{ userId: string }, { messageId: string }>("send-welcome", {
  queue: "email",
  retry: { attempts: 5, backoff: { kind: "exponential", from: "1s", to: "5m" } },
  timeout: "30s",
});

const mill = await Millrace.open("sqlite:./quick-start.db");
await mill.work([
  handler(sendWelcome, async ({ input, attempt, log }) => {
    if (input.userId === "") throw new Unrecoverable("no such user");
    log.info("sending", { attempt });
    return { messageId: `message-for-${input.userId}` };
  }),
]);

const handle = await mill.enqueue(sendWelcome, { userId: "42" }, { unique: "welcome:42" });
console.log("enqueued:", handle.created);
console.log("result:", await handle.result({ timeout: "10s" }));
await mill.close();
