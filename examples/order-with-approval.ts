// A durable run: it reserves, waits for a payment and for the approval of a person, sleeps, and ships. The process may
// die at any line; another one goes on at the first step that is not recorded.
import { handler, job, Millrace } from "millrace";
import { z } from "zod";

const order = job("order", {
  input: z.object({ id: z.string(), cents: z.number() }),
  signals: { paid: z.object({ ref: z.string() }), manager: z.object({ ok: z.boolean() }) },
  durable: { version: 1 },
});

const mill = await Millrace.open("sqlite::memory:", { log: false });
await mill.work([
  handler(order, async ({ input, step }) => {
    const hold = await step.run("reserve", () => `hold-${input.id}`);
    const { value } = await step.waitFor("paid", { timeout: "2d" });
    if (input.cents > 10_000) {
      const decision = await step.approval("manager", { timeout: "7d" });
      if (!decision.approved) return "declined";
    }
    await step.sleep("cool off", "20ms");
    return step.run("ship", () => `${hold} shipped, paid by ${value.ref}`);
  }),
]);

const run = await mill.enqueue(order, { id: "17", cents: 42_000 }, { id: "order-17" });
const paid = { ref: "visa" };
console.log("payment:", (await mill.signal("order-17", "paid", paid, { key: "event-1" })).kind);
console.log("the same again:", (await mill.signal("order-17", "paid", paid, { key: "event-1" })).kind);

const token = await mill.approvals.token("order-17", "manager", { source: "ann", expires: "7d" });
console.log("approval:", (await mill.approvals.answer(token, { ok: true })).kind);
console.log("result:", await run.result({ timeout: "10s" }));
await mill.close();
