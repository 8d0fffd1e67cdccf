// What handlers and steps do with budgets: refusals, the end of the attempt, durable runs, and what a job has spent.
import { beforeEach, describe, expect, test } from "vitest";
import { useVirtualMill } from "../../test/support/virtual/use-virtual-mill.ts";
import { budget } from "../engine/budgets/budget-definition.ts";
import { job } from "../engine/submit/job-definition.ts";
import { handler } from "../worker/handler.ts";
import type { Usage } from "../worker/run/usage.ts";
import { testMillrace } from "../testing/index.ts";

const coded = (code: string) => expect.objectContaining({ code });
const v = useVirtualMill();
const hourMs = 3_600_000;
const tokens = budget("tokens", { hard: 1000, reset: { every: "1h" } });

describe("a wrong call is refused before anything is counted", () => {
  const ask = job<null>("ask", { budgets: [tokens] });
  const wrong: [title: string, code: string, act: (usage: Usage) => Promise<unknown>][] = [
    ["a negative amount", "invalid-option", (usage) => usage.report(tokens, -1)],
    ["an amount of zero", "invalid-option", (usage) => usage.report(tokens, 0)],
    ["a fraction", "invalid-option", (usage) => usage.report(tokens, 1.5)],
    ["a huge amount", "invalid-option", (usage) => usage.report(tokens, 2 ** 53)],
    ["no number", "invalid-option", (usage) => usage.report(tokens, "7" as never)],
    ["a fraction that is reserved", "invalid-option", (usage) => usage.reserve(tokens, 0.1)],
    ["more than there is in a period", "invalid-option", (usage) => usage.reserve(tokens, 1001)],
    ["a budget that the store does not know", "unknown-budget", (usage) => usage.report("nobody", 1)],
    ["a budget that is none", "invalid-name", (usage) => usage.report(7 as never, 1)],
    ["a key that is no name", "invalid-name", (usage) => usage.report(tokens, 1, { key: "" })],
    ["an unknown option", "invalid-option", (usage) => usage.report(tokens, 1, { tenant: "a" } as never)],
    [
      "another definition of the same name",
      "budget-conflict",
      (usage) => usage.report(budget("tokens", { hard: 1, reset: { every: "1h" } }), 1),
    ],
  ];

  test.each(wrong)("%s", async (_title, code, act) => {
    let refusal: unknown = null;
    await v.run(
      v.mill.work([
        handler(ask, async ({ usage }) => {
          refusal = await act(usage).then(
            () => null,
            (error: unknown) => error,
          );
        }),
      ]),
    );
    await v.run((await v.run(v.mill.enqueue(ask, null))).result());
    expect(refusal).toEqual(coded(code));
    expect(await v.run(v.mill.budgets.get("tokens"))).toMatchObject({ spent: 0, periods: [] });
  });

  test("a report after the end of the attempt, or under a lease that is lost", async () => {
    const kept: Usage[] = [];
    const slow = job<null>("slow", { budgets: [tokens] });
    const { promise, resolve } = Promise.withResolvers<void>();
    await v.run(
      v.mill.work([
        handler(ask, ({ usage }) => void kept.push(usage)),
        handler(slow, ({ usage }) => (kept.push(usage), promise)),
      ]),
    );
    await v.run((await v.run(v.mill.enqueue(ask, null))).result());
    const handle = await v.run(v.mill.enqueue(slow, null));
    await v.advance(100);
    await v.run(v.mill.jobs.revoke(handle.id));
    await v.advance(20_000);
    expect(kept.length).toBeGreaterThanOrEqual(2);
    for (const usage of kept.slice(0, 2)) {
      await expect(v.run(usage.report(tokens, 1))).rejects.toMatchObject({
        ...{ code: "lease-lost", outcome: "did-not-happen" },
      });
      await expect(v.run(usage.reserve(tokens, 1))).rejects.toEqual(coded("lease-lost"));
    }
    expect(await v.run(v.mill.budgets.get("tokens"))).toMatchObject({ spent: 0, reserved: 0 });
    resolve();
  });

  test("a job with the same budget twice, or with more gates than a job may have", async () => {
    const many = Array.from({ length: 9 }, (_, at) => budget(`b${at}`, { hard: 1, reset: { every: "1h" } }));
    expect(() => job("twice", { budgets: [tokens, tokens.use({ key: "a" })] })).toThrow(
      coded("invalid-option"),
    );
    expect(() => job("many", { budgets: many })).toThrow(coded("invalid-option"));
    expect(() => job("none", { budgets: [{} as never] })).toThrow(coded("invalid-option"));
  });

  test("calls of operators", async () => {
    const { budgets } = v.mill;
    await v.run(budgets.define(tokens));
    const refused: [string, () => Promise<unknown>][] = [
      ["unknown-budget", () => budgets.get("nobody")],
      ["unknown-budget", () => budgets.edit("nobody", { hard: 1 })],
      ["unknown-budget", () => budgets.refund("nobody", 1)],
      ["unknown-budget", () => budgets.reset("nobody")],
      ["invalid-option", () => budgets.edit("tokens", { hard: 0 })],
      ["invalid-option", () => budgets.edit("tokens", { soft: 1000 })],
      ["invalid-option", () => budgets.refund("tokens", 1)],
      ["invalid-option", () => budgets.refund("tokens", -1)],
      ["invalid-option", () => budgets.define({} as never)],
      ["invalid-name", () => budgets.get(7 as never)],
    ];
    for (const [code, act] of refused) await expect(v.run(act()), code).rejects.toEqual(coded(code));
    expect(await v.run(budgets.get("tokens"))).toMatchObject({ hard: 1000, edited: null, spent: 0 });
  });
});

describe("a durable run", () => {
  const agent = job<number, string>("agent", { durable: { version: 1 }, budgets: [tokens] });
  let runs = 0;
  beforeEach(() => void (runs = 0));
  const thinking = handler(agent, async ({ input, step }) => {
    await step.run("think", async ({ usage }) => {
      runs += 1;
      await using hold = await usage.reserve(tokens, input);
      await hold.settle(input - 1);
    });
    return "done";
  });

  test("whose reservation does not fit rests without a slot until the period ends", async () => {
    await v.run(v.mill.work([thinking], { concurrency: 1 }));
    await v.run((await v.run(v.mill.enqueue(agent, 900))).result());
    const handle = await v.run(v.mill.enqueue(agent, 500));
    await v.advance(1000);
    expect((await v.run(v.mill.jobs.get(handle.id)))?.state).toMatch(/^(?:scheduled|suspended)$/);
    // The slot is free for others.
    await v.run((await v.run(v.mill.enqueue(agent, 50))).result());
    await v.advance(hourMs);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({
      state: "completed",
      spent: { tokens: 499 },
    });
    expect(await v.run(v.mill.budgets.get("tokens"))).toMatchObject({ spent: 499, reserved: 0 });
    expect(runs).toBe(4);
  });

  test("has usage in its steps, and not beside them", async () => {
    const beside = handler(agent, async ({ usage }) => String(usage));
    await v.run(v.mill.work([beside as never]));
    const handle = await v.run(v.mill.enqueue(agent, 1, { retry: { attempts: 1 } }));
    await expect(v.run(handle.result())).rejects.toEqual(coded("job-failed"));
    const view = await v.run(v.mill.jobs.get(handle.id));
    expect(view?.failures[0]?.error?.code).toBe("not-in-runs");
  });
});

test("what a job has used of budgets is kept with it, over its attempts", async () => {
  const ask = job<number>("ask", { budgets: [tokens], retry: { attempts: 3, backoff: 0 } });
  await v.run(
    v.mill.work([
      handler(ask, async ({ attempt, usage }) => {
        await usage.report(tokens, 10);
        if (attempt < 3) throw new Error("again");
      }),
    ]),
  );
  const handle = await v.run(v.mill.enqueue(ask, 1));
  await v.run(handle.result());
  expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ attempt: 3, spent: { tokens: 30 } });
  const plain = await v.run(v.mill.enqueue(job<number>("plain"), 1));
  expect(await v.run(v.mill.jobs.get(plain.id))).toMatchObject({ spent: {} });
});

test("testMillrace counts and holds by its clock", async () => {
  const ask = job<number>("ask", { budgets: [tokens] });
  const t = await testMillrace({
    handlers: [handler(ask, async ({ input, usage }) => usage.report(tokens, input))],
  });
  await t.enqueue(ask, 1000);
  await t.drain();
  await t.enqueue(ask, 1);
  await t.drain();
  expect(t.completed(ask)).toHaveLength(1);
  await t.clock.advance("1h");
  await t.drain();
  expect(t.completed(ask)).toHaveLength(2);
  await t.close();
});
