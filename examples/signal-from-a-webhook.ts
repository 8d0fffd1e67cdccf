// A payment provider calls a webhook, more than once and sometimes before the run waits. It knows its payment and not
// our run, so the run waits at the number of the payment. The id of the provider's event makes the signal count once.
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { handler, job, Millrace } from "millrace";
import { z } from "zod";

const checkout = job("checkout", {
  input: z.object({ cart: z.string() }),
  signals: { paid: z.object({ ref: z.string() }) },
  durable: { version: 1 },
});

const mill = await Millrace.open("sqlite::memory:", { log: false });
await mill.work([
  handler(checkout, async ({ input, step }) => {
    const payment = await step.run("ask for payment", () => `payment-of-${input.cart}`);
    const paid = await step.waitFor("paid", { key: payment, timeout: "1h" });
    return `paid: ${paid.value.ref}`;
  }),
]);

async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { event, payment, ref } = (await json(request)) as { event: string; payment: string; ref: string };
  const answer = await mill.signal({ key: payment }, "paid", { ref }, { key: event });
  response.end(answer.kind);
}
const server = createServer((request, response) => void receive(request, response));
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));

const run = await mill.enqueue(checkout, { cart: "c1" });
const { port } = server.address() as AddressInfo;
const body = JSON.stringify({ event: "evt-1", payment: "payment-of-c1", ref: "visa" });
await fetch(`http://127.0.0.1:${port}`, { method: "POST", body });
const again = await fetch(`http://127.0.0.1:${port}`, { method: "POST", body });
console.log("sent twice:", await again.text());
console.log(await run.result({ timeout: "10s" }));
server.close();
await mill.close();
