// What a handler gets of a signal is what a wait has taken, in every life of the run, whatever became of the schema.
import { expect, test } from "vitest";
import { z } from "zod";
import { handler, job } from "../../src/index.ts";
import type { AnySchema } from "../../src/engine/submit/standard-schema.ts";
import { useVirtualMill } from "../support/virtual/use-virtual-mill.ts";

const v = useVirtualMill();

/** Works on "order" with these schemas until the run rests. @returns what each life of the handler was given. */
async function live(id: string, paid: AnySchema, vote: AnySchema): Promise<readonly unknown[]> {
  const order = job("order", {
    input: z.object({}),
    signals: { paid, vote, go: z.object({}) },
    durable: { version: 1 },
  });
  const given: unknown[] = [];
  const code = handler(order, async ({ step }) => {
    given.push((await step.waitFor("paid")).value);
    given.push((await step.approval("vote", { timeout: "9d" })).answers.map(({ value }) => value));
    await step.waitFor("go");
  });
  const worker = await v.run(v.mill.work([code]));
  if ((await v.run(v.mill.jobs.get(id))) === null) {
    await v.run(v.mill.enqueue(order, {}, { id }));
    await v.run(v.mill.signal(id, "paid", { cents: 5 }));
    await v.run(v.mill.signal(id, "vote", { ok: true }));
  } else await v.run(v.mill.signal(id, "go", {}));
  await v.advance(5000);
  await v.run(worker.stop());
  return given;
}

const cents = z.object({ cents: z.number() });
const vote = z.object({ ok: z.boolean() });

test("a signal that was taken is handed out again although its schema refuses it now", async () => {
  const first = await live("o", cents, vote);
  expect(first).toEqual([{ cents: 5 }, [{ ok: true }]]);
  const tighter = cents.extend({ currency: z.string() });
  expect(await live("o", tighter, vote.extend({ by: z.string() }))).toEqual(first);
  expect(await v.run(v.mill.jobs.get("o"))).toMatchObject({ state: "completed" });
});

test("what a schema has made of a signal is handed out again although it makes something else now", async () => {
  const first = await live(
    "o",
    cents.transform(({ cents: paid }) => ({ euros: paid / 100 })),
    vote.extend({ by: z.string().default("ann") }),
  );
  expect(first).toEqual([{ euros: 0.05 }, [{ ok: true, by: "ann" }]]);
  expect(await live("o", cents, vote)).toEqual(first);
});

test("a signal of which its schema makes what cannot be stored is refused, and the run waits on", async () => {
  const given = await live(
    "o",
    cents.transform(() => ({ call: () => 1 })),
    vote,
  );
  expect(given).toEqual([]);
  const entries = await v.run(v.mill.runs.get("o"));
  expect(entries?.unread).toMatchObject([{ signal: "vote" }]);
});
