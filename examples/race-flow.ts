// A race of three quotes: the first two that come decide, the third is cancelled and its handler is told so.
import { flow, handler, job, Millrace } from "millrace";

const askForQuote = job<{ from: string; takesMs: number; price: number }, number>("ask-for-quote");
const buy = job<{ prices: readonly number[] }, string>("buy");

const mill = await Millrace.open("sqlite::memory:", { log: false });
await mill.work([
  handler(askForQuote, async ({ input, signal }) => {
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(resolve, input.takesMs);
      signal.addEventListener("abort", () => {
        clearTimeout(timer);
        console.log(`${input.from} is not needed any more`);
        reject(signal.reason as Error);
      });
    });
    return input.price;
  }),
  handler(buy, async ({ input }) => `bought for ${Math.min(...input.prices)}`),
]);

const purchase = flow("purchase");
const quotes = purchase.race(
  "quotes",
  [
    askForQuote.with({ from: "Ada's", takesMs: 5, price: 42 }),
    askForQuote.with({ from: "Ben's", takesMs: 10, price: 40 }),
    askForQuote.with({ from: "Cleo's", takesMs: 60_000, price: 1 }),
  ],
  { first: 2 },
);
purchase.add("buy", buy, { prices: quotes.results });

const run = await mill.submit(purchase);
console.log(await run.result({ timeout: "10s" }));
// The flow does not wait for the end of who has lost.
const lost = mill.handle(`${run.id}.quotes.2`).result({ timeout: "10s" });
await lost.catch((error: Error) => console.log(error.message.replace(/^.*ended/, "the third ended")));
await mill.close();
