import { afterEach, expect, test } from "vitest";
import { z } from "zod";
import { handler, job } from "../index.ts";
import type { ContextOf } from "../index.ts";
import { testMillrace } from "./index.ts";
import type { TestMillrace } from "./index.ts";

const run = job("run", { signals: { go: z.string() }, durable: { version: 1 } });
const minuteMs = 60_000;

let t: TestMillrace | null = null;
const timers: NodeJS.Timeout[] = [];
afterEach(async () => {
  for (const timer of timers.splice(0)) clearTimeout(timer);
  await t?.close();
  t = null;
});

const later = (): NodeJS.Timeout => {
  const timer = setTimeout(() => undefined, minuteMs);
  timers.push(timer);
  return timer;
};

async function drained(handle: (context: ContextOf<typeof run>) => Promise<unknown>): Promise<unknown> {
  t = await testMillrace({ handlers: [handler(run, (context) => handle(context) as never)] });
  await t.enqueue(run, {});
  return t.drain().then(
    () => "drained",
    (error: unknown) => error,
  );
}

test("a drain fails if a run rests while a timer of its handler runs, and names the line", async () => {
  const error = await drained(async ({ step }) => {
    await step.run("a", () => 1);
    later();
    await step.waitFor("go");
  });
  expect(error).toMatchObject({ code: "held-across-wait" });
  expect(String(error)).toMatch(/held-timers\.test\.ts:\d+/);
});

test("also if the handler waits for it beside the wait", async () => {
  const error = await drained(({ step }) =>
    Promise.race([step.waitFor("go"), new Promise((resolve) => timers.push(setTimeout(resolve, minuteMs)))]),
  );
  expect(error).toMatchObject({ code: "held-across-wait" });
});

test.each<[what: string, handle: (context: ContextOf<typeof run>) => Promise<unknown>]>([
  ["was cleared before", async ({ step }) => (clearTimeout(later()), step.waitFor("go"))],
  [
    "has fired before",
    async ({ step }) => {
      await new Promise((resolve) => setTimeout(resolve, 1));
      await step.waitFor("go");
    },
  ],
  [
    "is set in a step",
    async ({ step }) => {
      await step.run("a", () => void later());
      await step.waitFor("go");
    },
  ],
])("a timer that %s fails nothing", async (_, handle) => {
  expect(await drained(handle)).toBe("drained");
});

test("a run that sleeps by step.sleep and goes on holds nothing", async () => {
  const handle = async ({ step }: ContextOf<typeof run>): Promise<unknown> => step.sleep("nap", "7d");
  expect(await drained(handle)).toBe("drained");
  await t?.clock.advance("7d");
  await t?.drain();
  expect(t?.jobs(run, "completed")).toHaveLength(1);
});
