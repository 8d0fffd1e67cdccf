/**
 * Durable runs on real stores, from several processes at once: whatever a handler asks for of `step` works alike on
 * each of them.
 */
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { flow, handler, job, Unrecoverable } from "../../src/index.ts";
import type { Handler, Millrace } from "../../src/index.ts";
import { openBucketStore } from "../../src/stores/bucket/bucket-store.ts";
import { MemoryBucket } from "../../src/stores/bucket/objects/memory.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { hangMs } from "../support/hang-ms.ts";
import { millOn } from "../support/mill-on.ts";
import { until } from "../support/until.ts";
import { usePlaces } from "../support/servers/use-places.ts";

const wait = { timeout: hangMs };

const order = job("order", {
  input: z.object({ id: z.number() }),
  signals: { paid: z.object({ ref: z.string() }), boss: z.object({ ok: z.boolean() }) },
  durable: { version: 1 },
});
const double = job<number, number>("double", { retry: { attempts: 1 } });
const parent = job<null, unknown>("parent", { durable: { version: 1 }, retry: { attempts: 1 } });
const trip = job<null, null>("trip", { durable: { version: 1 }, retry: { attempts: 1 } });
const invoice = job("invoice", {
  input: z.object({ numbers: z.array(z.string()) }),
  signals: { settled: z.object({ by: z.string() }) },
  durable: { version: 1 },
});
const counter = job<number, number>("counter", { durable: { version: 1 } });

/** What happened outside of the store, over all processes of a test. */
interface Outside {
  readonly done: string[];
  readonly keys: Set<string>;
}

function handlersOf({ done, keys }: Outside): readonly Handler[] {
  return [
    handler(double, async ({ input }) => {
      if (input < 0) throw new Unrecoverable(`${input} is below zero`);
      return input * 2;
    }),
    handler(order, async ({ input, step }) => {
      const [hold, tax] = await Promise.all([
        step.run("reserve", ({ idempotencyKey }) => {
          keys.add(idempotencyKey);
          return `hold ${input.id}`;
        }),
        step.run("tax", () => 19),
      ]);
      const paid = await step.waitFor("paid");
      const { approved } = await step.approval("boss", { of: 2, timeout: "7d" });
      await step.sleep("nap", "5ms");
      return { hold, tax, ref: paid.value.ref, approved };
    }),
    handler(parent, async ({ step }) => {
      const sums = flow("sums");
      const first = sums.add("a", double, 1);
      sums.add("b", double, first.result);
      const [one, all, error] = await Promise.all([
        step.invoke(double, 21),
        step.invoke(sums),
        step.invoke(double, -1).catch((thrown: Error) => String(thrown.cause)),
      ]);
      const race = await step.race({
        late: () => step.sleep("late", "1d").then(() => "late"),
        soon: () => step.invoke(double, 2),
      });
      return { one, all, error, race };
    }),
    handler(trip, async ({ step }) => {
      for (const name of ["flight", "hotel"])
        await step.run(name, () => void done.push(name), { undo: () => void done.push(`no ${name}`) });
      throw new Unrecoverable("no car");
    }),
    handler(invoice, async ({ input, step }) =>
      step.each(
        "settle",
        input.numbers,
        (number) => number,
        async (number, own) => {
          const settled = await own.waitFor("settled", { key: `invoice ${number}` });
          return `${number} by ${settled.value.by}`;
        },
      ),
    ),
    handler(counter, async ({ input, step }) => {
      await step.run("count", () => input);
      return input === 3 ? input : step.continueWith(input + 1);
    }),
  ];
}

const aBucket = (): (() => Promise<Store>) => {
  const bucket = new MemoryBucket();
  return () => openBucketStore({ objects: bucket.open(), platform: nodePlatform, whenHeld: "take" });
};

describe.each([...usePlaces(), ["a bucket", aBucket] as const])("on %s", (title, place) => {
  const closeLater = closeAfterEach();
  /** Two processes that work, but of a bucket, which has one writer. */
  const start = async (): Promise<{ mill: Millrace; outside: Outside }> => {
    const open = place();
    const outside: Outside = { done: [], keys: new Set() };
    const mills: Millrace[] = [];
    for (let count = title === "a bucket" ? 1 : 2; count > 0; count--) {
      const mill = closeLater(millOn(await open()));
      await mill.work(handlersOf(outside));
      mills.push(mill);
    }
    return { mill: mills[0] as Millrace, outside };
  };

  test("steps, signals, approvals and sleeps", async () => {
    const { mill, outside } = await start();
    const runs = await mill.enqueueMany(Array.from({ length: 20 }, (_, id) => order.with({ id })));
    await Promise.all(
      runs.map(async ({ id }, at) => {
        const early = await mill.signal(id, "paid", { ref: `r${at}` }, { key: "event" });
        expect(["buffered", "delivered"]).toContain(early.kind);
        expect((await mill.signal(id, "paid", { ref: "again" }, { key: "event" })).kind).toBe("duplicate");
        for (const source of ["ann", "bob"]) {
          const token = await mill.approvals.token(id, "boss", { source, expires: "1d" });
          expect(await mill.approvals.answer(token, { ok: true })).toEqual({ kind: "accepted" });
        }
      }),
    );
    const results = await Promise.all(runs.map((run) => run.result(wait)));
    expect(results).toEqual(
      runs.map((_, id) => ({ hold: `hold ${id}`, tax: 19, ref: `r${id}`, approved: true })),
    );
    expect(outside.keys.size).toBe(20);
    const steps = (await mill.runs.get(runs[0]?.id ?? ""))?.steps ?? [];
    expect(steps.every(({ state }) => state === "completed")).toBe(true);
  });

  test("children, their errors, a flow and a race", async () => {
    const { mill } = await start();
    const run = await mill.enqueue(parent, null);
    expect(await run.result(wait)).toEqual({
      one: 42,
      all: { b: 4 },
      error: expect.stringContaining("-1 is below zero"),
      race: { winner: "soon", value: 4 },
    });
  });

  test("undo, in reverse order", async () => {
    const { mill, outside } = await start();
    const run = await mill.enqueue(trip, null);
    await expect(run.result(wait)).rejects.toThrow("no car");
    expect(outside.done).toEqual(["flight", "hotel", "no hotel", "no flight"]);
  });

  test("a run begins anew with each continueWith", async () => {
    const { mill } = await start();
    const run = await mill.enqueue(counter, 0);
    expect(await run.result(wait)).toBe(3);
    expect((await mill.runs.get(run.id))?.round).toBe(3);
  });

  test("signals by business key, before and after the waits, to one run and to many", async () => {
    const { mill } = await start();
    const send = (number: string, by: string) =>
      mill.signal({ key: `invoice ${number}` }, "settled", { by }, { key: by });
    expect(await send("1", "early")).toEqual({ kind: "buffered", runs: 0 });
    expect(await send("1", "early")).toEqual({ kind: "duplicate", runs: 0 });
    const [one, two] = await mill.enqueueMany([
      invoice.with({ numbers: ["1", "2", "3"] }),
      invoice.with({ numbers: ["3"] }),
    ]);
    const waits = (count: number) =>
      until("the runs wait", async () => {
        const { runs } = await mill.runs.waiting({ signal: "settled", key: "invoice 3" });
        return runs.length === count;
      });
    await waits(2);
    expect(await send("2", "late")).toEqual({ kind: "delivered", runs: 1 });
    expect(await send("2", "late")).toEqual({ kind: "duplicate", runs: 0 });
    expect(await send("3", "both")).toEqual({ kind: "delivered", runs: 2 });
    expect(await one.result(wait)).toEqual(["1 by early", "2 by late", "3 by both"]);
    expect(await two.result(wait)).toEqual(["3 by both"]);
    // The waits are over, so a signal that comes later is not for them.
    expect(await send("3", "nobody")).toEqual({ kind: "buffered", runs: 0 });
  });

  test("a cancel ends a waiting run and what it has invoked", async () => {
    const { mill } = await start();
    const waiting = await mill.enqueue(order, { id: 1 });
    await until("the run waits", async () => (await mill.jobs.get(waiting.id))?.state === "suspended");
    expect(await mill.jobs.cancel(waiting.id)).toBe("cancelled");
    expect(await mill.signal(waiting.id, "paid", { ref: "late" })).toEqual({
      kind: "refused",
      reason: "finished",
    });
  });
});
