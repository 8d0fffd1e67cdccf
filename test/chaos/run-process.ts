/**
 * A process of the test of killed runs: works on durable runs, says each code of a step that begins and ends, and goes
 * on until it is killed.
 */
import { writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { handler, Millrace } from "../../src/index.ts";
import { order } from "./run-jobs.ts";

const [url = ""] = process.argv.slice(2);
const say = (line: string): void => void writeSync(1, `${line}\n`);
const mill = await Millrace.open(url, { log: false });
const slow = async (name: string, key: string): Promise<string> => {
  say(`begins ${name} ${key}`);
  await sleep(30);
  say(`ends ${name} ${key}`);
  return name;
};
await mill.work(
  [
    handler(order, async ({ input, step }) => {
      const one = await step.run("one", ({ idempotencyKey }) => slow("one", idempotencyKey));
      const two = await Promise.all(
        ["a", "b"].map((name) => step.run(name, ({ idempotencyKey }) => slow(name, idempotencyKey))),
      );
      await step.sleep("nap", "50ms");
      const { value } = await step.waitFor("go", { timeout: "10m" });
      const { approved } = await step.approval("manager", { timeout: "10m" });
      const last = await step.run("last", ({ idempotencyKey }) => slow("last", idempotencyKey));
      return [input.n, one, ...two, value, approved, last];
    }),
  ],
  { lease: "400ms", concurrency: 20 },
);
say("works");
