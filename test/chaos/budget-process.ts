/**
 * A process of the budget tests: a worker whose jobs report what they use, and say so once it is counted, and of which
 * each reserves an amount that it holds until the process is killed.
 */
import { writeSync } from "node:fs";
import { budget, handler, job, Millrace } from "../../src/index.ts";

export const tokens = budget("tokens", {
  hard: 1_000_000,
  perKey: { hard: 500_000 },
  reset: { every: "3650d" },
});
export const ask = job<{ tenant: string; amount: number }>("ask", {
  budgets: [tokens.use({ key: (input: { tenant: string }) => input.tenant })],
});
/** Of each attempt. */
export const reservedAmount = 10;

const [url = ""] = process.argv.slice(2);
if (import.meta.main) {
  const say = (line: unknown): void => void writeSync(1, `${JSON.stringify(line)}\n`);
  const mill = await Millrace.open(url, { log: false });
  await mill.work(
    [
      handler(ask, async ({ input, usage }) => {
        await usage.reserve(tokens, reservedAmount);
        say("begun");
        for (;;) {
          await usage.report(tokens, input.amount);
          say({ amount: input.amount });
        }
      }),
    ],
    { concurrency: 4, lease: "1s" },
  );
  say("ready");
}
