// What a user can get wrong with durable runs, on every store: a clear error with a code or a defined outcome, nothing
// stuck, and no state said to whom it is no business of.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { batchHandler, handler, job } from "../../src/index.ts";
import type { Handler, Millrace } from "../../src/index.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openBucketStore } from "../../src/stores/bucket/bucket-store.ts";
import { MemoryBucket } from "../../src/stores/bucket/objects/memory.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { hangMs } from "../support/hang-ms.ts";
import { millOn } from "../support/mill-on.ts";
import { usePlaces } from "../support/servers/use-places.ts";
import { until } from "../support/until.ts";

const wait = { timeout: hangMs };
const signals = { go: z.object({ n: z.number() }), manager: z.object({ ok: z.boolean() }) };
const order = job("order", { signals, durable: { version: 1 }, retry: { attempts: 1 } });
const plain = job<null>("plain");

const aBucket = (): (() => Promise<Store>) => {
  const bucket = new MemoryBucket();
  return () => openBucketStore({ objects: bucket.open(), platform: nodePlatform, whenHeld: "take" });
};

test("a batch handler of a durable job is refused where it is made", () => {
  expect(() => batchHandler(order as never, { size: 2 } as never, async () => undefined)).toThrow(
    expect.objectContaining({ name: "MillraceError", code: "invalid-option" }),
  );
});

describe.each([...usePlaces(), ["a bucket", aBucket] as const])("on %s", (_title, place) => {
  const closeLater = closeAfterEach();
  const open = async (...handlers: readonly Handler[]): Promise<Millrace> => {
    const mill = closeLater(millOn(await place()()));
    if (handlers.length > 0) await mill.work(handlers);
    return mill;
  };
  const state = async (mill: Millrace, id: string): Promise<string | undefined> =>
    (await mill.jobs.get(id))?.state;
  const refused = (call: Promise<unknown>, code: string): Promise<void> =>
    expect(call).rejects.toMatchObject({ code, outcome: "did-not-happen" });

  test("signals that no run can take are refused before a write", async () => {
    const mill = await open();
    const run = await mill.enqueue(order, null);
    const other = await mill.enqueue(plain, null);
    await refused(mill.signal("nobody", "go", { n: 1 }), "job-not-found");
    await refused(mill.signal(other.id, "go", { n: 1 }), "not-durable");
    await refused(mill.signal(run.id, "gone", { n: 1 }), "unknown-signal");
    await refused(mill.signal(order, run.id, "go", { n: "one" as never }), "invalid-input");
    await refused(mill.signal(run.id, "go", { n: 1, text: "x".repeat(2 ** 21) }), "payload-too-large");
    await refused(mill.signal(order, run.id, "go", { n: () => 1 } as never), "invalid-input");
    expect(await mill.runs.get(run.id)).toBeNull();
    await mill.jobs.cancel(run.id);
    expect(await mill.signal(run.id, "go", { n: 1 })).toEqual({ kind: "refused", reason: "finished" });
  });

  test("a value of the wrong shape that came anyway is refused by the run, which waits on", async () => {
    // A sender that does not know the definition.
    const mill = await open();
    const run = await mill.enqueue(job("order", { signals: { go: z.any() }, durable: { version: 1 } }), null);
    await mill.signal(run.id, "go", { n: "one" });
    await mill.work([handler(order, async ({ step }) => (await step.waitFor("go")).value.n)]);
    await until("it waits", async () => (await state(mill, run.id)) === "suspended");
    expect(await mill.signal(run.id, "go", { n: 1 })).toEqual({ kind: "delivered" });
    expect(await run.result(wait)).toBe(1);
  });

  test("tokens that were forged, damaged, used or came too late do nothing and say nothing", async () => {
    const mill = await open(
      handler(order, async ({ step }) => {
        const { approved, answers } = await step.approval("manager", { of: 2, timeout: "7d" });
        return [approved, answers.map(({ source }) => source)];
      }),
    );
    const run = await mill.enqueue(order, null);
    const token = (source: string, expires = "1h") =>
      mill.approvals.token(run.id, "manager", { source, expires: expires as "1h" });
    const ann = await token("ann");
    const [body = "", mac = ""] = ann.split(".");
    const wrong = [
      "",
      ".",
      body,
      `${body}.`,
      `${ann}x`,
      `${body}.${mac.toLowerCase()}`,
      "x".repeat(9999),
      null,
    ];
    for (const each of wrong) {
      expect(await mill.approvals.look(each as never)).toEqual({ kind: "invalid" });
      expect(await mill.approvals.answer(each as never, { ok: true })).toEqual({ kind: "invalid" });
    }
    const short = await token("bob", "1ms");
    await until("it is over", async () => (await mill.approvals.look(short)).kind === "expired");
    expect(await mill.approvals.answer(short, { ok: true })).toEqual({ kind: "expired" });
    // One person twice, and at once: it counts once.
    const same = await token("ann");
    const both = await Promise.all([ann, same].map((each) => mill.approvals.answer(each, { ok: true })));
    expect(both.map(({ kind }) => kind).toSorted((one, other) => (one < other ? -1 : 1))).toEqual([
      "accepted",
      "used",
    ]);
    expect(await mill.approvals.answer(ann, { ok: true })).toEqual({ kind: "used" });
    expect(await state(mill, run.id)).not.toBe("completed");
    // Two people at once.
    const [bob, eve] = [await token("bob"), await token("eve")];
    const answers = await Promise.all([bob, eve].map((each) => mill.approvals.answer(each, { ok: true })));
    expect(answers.some(({ kind }) => kind === "accepted")).toBe(true);
    const [approved, sources] = (await run.result(wait)) as [boolean, string[]];
    expect([approved, sources[0], sources.length]).toEqual([true, "ann", 2]);
    expect(await mill.approvals.answer(bob, { ok: true })).toMatchObject({
      kind: expect.stringMatching(/closed|used/) as string,
    });
    await refused(token("ann"), "job-changed");
  });

  test("steps in odd places: two of one name at once, after the end, in a timer, and one that cannot be stored", async () => {
    let late: Promise<unknown> = Promise.resolve();
    const mill = await open(
      handler(order, async ({ step }) => {
        const twice = await Promise.all([step.run("same", () => 1), step.run("same", () => 2)]);
        const timed = await new Promise((resolve) =>
          setTimeout(() => resolve(step.run("timed", () => 3)), 5),
        );
        const circle: { own?: unknown } = {};
        circle.own = circle;
        const failed = await step.run("circle", () => circle).catch((error: Error) => error.name);
        setTimeout(() => {
          late = step.run("late", () => 4);
          late.catch(() => undefined);
        }, 20);
        return [...twice, timed, failed];
      }),
    );
    const run = await mill.enqueue(order, null);
    expect(await run.result(wait)).toEqual([1, 2, 3, "StepFailed"]);
    await new Promise((resolve) => setTimeout(resolve, 50));
    await expect(late).rejects.toMatchObject({ code: "run-ended" });
    const steps = (await mill.runs.get(run.id))?.steps.map(({ step }) => step);
    expect(steps).toEqual(["same#1", "same#2", "timed#1", "circle#1"]);
  });

  test("a handler that catches everything does not catch the rest of its run", async () => {
    const seen: unknown[] = [];
    const mill = await open(
      handler(order, async ({ step }) => {
        try {
          return (await step.waitFor("go")).value.n;
        } catch (error) {
          seen.push(error);
          return "caught";
        } finally {
          seen.push("finally");
        }
      }),
    );
    const run = await mill.enqueue(order, null);
    await until("it waits", async () => (await state(mill, run.id)) === "suspended");
    expect(seen).toEqual([]);
    await mill.signal(run.id, "go", { n: 7 });
    expect(await run.result(wait)).toBe(7);
    expect(seen).toEqual(["finally"]);
  });

  test("10,001 steps end the run as failed, with what to do", async () => {
    const mill = await open(
      handler(order, async ({ step }) => {
        for (let at = 0; at < 10_001; at += 500)
          await Promise.all(Array.from({ length: 500 }, () => step.run("step", () => null)));
      }),
    );
    const run = await mill.enqueue(order, null);
    await expect(run.result({ timeout: 4 * hangMs })).rejects.toThrow(/continueWith/);
    expect(await mill.jobs.get(run.id)).toMatchObject({ state: "failed", reason: "journal-full" });
  });
});
