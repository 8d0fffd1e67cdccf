// Tests of your own jobs: the real engine on a store in memory, with a clock that only you move. Nothing waits for real
// time.
import assert from "node:assert/strict";
import { handler, job } from "millrace";
import { testMillrace } from "millrace/testing";

const signUp = job<{ email: string }>("sign-up");
const sendWelcome = job<{ email: string }>("send-welcome", { retry: { attempts: 3, backoff: "1m" } });

let isMailServerUp = false;
const t = await testMillrace({
  handlers: [
    handler(signUp, ({ input, enqueue }) => enqueue(sendWelcome, input, { delay: "10m" })),
    handler(sendWelcome, () => {
      if (!isMailServerUp) throw new Error("no mail server");
    }),
  ],
});

await t.enqueue(signUp, { email: "ada@example.com" });
await t.drain();
assert.equal(t.enqueued(sendWelcome).length, 1);
assert.equal(t.completed(sendWelcome).length, 0);
console.log("the welcome waits for its ten minutes");

await t.clock.advance("10m");
await t.drain();
assert.deepEqual(t.jobs(sendWelcome)[0]?.errors, ["Error: no mail server"]);
console.log("the first attempt failed and will be repeated");

isMailServerUp = true;
await t.clock.advance("1m");
await t.drain();
assert.equal(t.completed(sendWelcome).length, 1);
console.log("the second attempt completed, eleven minutes later by the clock of the test");
await t.close();
