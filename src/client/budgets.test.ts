import { describe, expect, test } from "vitest";
import { useVirtualMill } from "../../test/support/virtual/use-virtual-mill.ts";
import { budget } from "../engine/budgets/budget-definition.ts";
import type { Budget } from "../engine/budgets/budget-definition.ts";
import { flow } from "../engine/flows/flow.ts";
import { job } from "../engine/submit/job-definition.ts";
import { handler } from "../worker/handler.ts";

const coded = (code: string) => expect.objectContaining({ code });
const v = useVirtualMill();
const hourMs = 3_600_000;

describe("a report", () => {
  const tokens = budget("tokens", { hard: 100, soft: 50, reset: { every: "1h" } });
  const ask = job<number>("ask", { budgets: [tokens] });
  const reporting = handler(ask, async ({ input, usage }) => usage.report(tokens, input));

  test("counts in its period, and the next period begins at 0 without a write", async () => {
    await v.run(v.mill.work([reporting]));
    await v.run((await v.run(v.mill.enqueue(ask, 30))).result());
    expect(await v.run(v.mill.budgets.get("tokens"))).toMatchObject({
      ...{
        name: "tokens",
        key: null,
        hard: 100,
        soft: 50,
        spent: 30,
        reserved: 0,
        left: 70,
        heldUntil: null,
      },
      periods: [{ spent: 30 }],
    });
    await v.advance(hourMs);
    expect(await v.run(v.mill.budgets.get("tokens"))).toMatchObject({ spent: 0, periods: [{ spent: 30 }] });
  });

  test("above the bound holds what waits until the period ends, and explain says so", async () => {
    await v.run(v.mill.work([reporting]));
    await v.run((await v.run(v.mill.enqueue(ask, 130))).result());
    await v.advance(100);
    const handle = await v.run(v.mill.enqueue(ask, 1));
    await v.advance(1000);
    const { endsAt, heldUntil } = await v.run(v.mill.budgets.get("tokens"));
    expect(heldUntil).toEqual(endsAt);
    const held = { by: "budget", name: "tokens", until: endsAt };
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "ready", held });
    expect(await v.run(v.mill.explain(handle.id))).toMatchObject({
      state: "ready",
      held,
      expectedAt: endsAt,
    });
    await v.advance(endsAt.getTime() - v.platform.now() - 1000);
    expect((await v.run(v.mill.jobs.get(handle.id)))?.state).toBe("ready");
    await v.advance(2000);
    expect((await v.run(v.mill.jobs.get(handle.id)))?.state).toBe("completed");
    expect(await v.run(v.mill.budgets.get("tokens"))).toMatchObject({
      spent: 1,
      periods: [{ spent: 1 }, { spent: 130 }],
    });
  });

  test("of a key holds the jobs of that key alone", async () => {
    const perTenant = budget("per-tenant", { perKey: { hard: 10 }, reset: { every: "1h" } });
    const work = job<{ tenant: string; amount: number }>("work", {
      budgets: [perTenant.use({ key: (input: { tenant: string }) => input.tenant })],
    });
    await v.run(
      v.mill.work([handler(work, async ({ input, usage }) => usage.report(perTenant, input.amount))]),
    );
    await v.run((await v.run(v.mill.enqueue(work, { tenant: "acme", amount: 12 }))).result());
    await v.advance(100);
    const [acme, other] = await v.run(
      v.mill.enqueueMany(["acme", "other"].map((tenant) => work.with({ tenant, amount: 1 }))),
    );
    await v.advance(1000);
    expect((await v.run(v.mill.jobs.get(other!.id)))?.state).toBe("completed");
    expect(await v.run(v.mill.jobs.get(acme!.id))).toMatchObject({
      ...{ state: "ready", held: { by: "budget", name: "per-tenant", key: "acme" } },
    });
    expect(await v.run(v.mill.budgets.get("per-tenant"))).toMatchObject({
      ...{
        spent: 13,
        heldUntil: null,
        keys: [
          { key: "acme", spent: 12 },
          { key: "other", spent: 1 },
        ],
      },
    });
    expect(await v.run(v.mill.budgets.refund("per-tenant", 5, { key: "acme" }))).toMatchObject({
      ...{ spent: 7, heldUntil: null },
    });
    await v.advance(1000);
    expect((await v.run(v.mill.jobs.get(acme!.id)))?.state).toBe("completed");
  });
});

test("a budget of a flow holds all its nodes, beside the budgets of their jobs", async () => {
  const [whole, own] = ["whole", "own"].map((name) => budget(name, { hard: 10, reset: { every: "1h" } })) as [
    Budget,
    Budget,
  ];
  const work = job<number>("work", { budgets: [own] });
  const plain = job<number>("plain");
  const spend = handler(work, async ({ input, usage }) => usage.report(whole, input));
  await v.run(v.mill.work([spend, handler(plain, () => undefined)]));
  const report = flow("report", { budgets: [whole] });
  const first = report.add("first", work, 10);
  report.add("second", plain, 1, { after: first });
  const run = await v.run(v.mill.submit(report));
  await v.advance(2000);
  const { jobs } = await v.run(v.mill.jobs.list({ name: "plain" }));
  expect(jobs).toMatchObject([{ state: "ready", held: { by: "budget", name: "whole" } }]);
  await v.run(v.mill.budgets.refund("whole", 5));
  await v.run(run.result());
  expect(() => report.map("all", plain, [1, 2])).toThrow(coded("invalid-option"));
});

describe("a reservation", () => {
  const tokens = budget("tokens", { hard: 100, reset: { every: "1h" } });
  const ask = job<{ reserve: number; use: number | null }>("ask", { budgets: [tokens] });
  const reserving = handler(ask, async ({ input, usage }) => {
    await using hold = await usage.reserve(tokens, input.reserve);
    if (input.use !== null) await hold.settle(input.use);
  });

  test("counts what was really used, or nothing if it is not settled", async () => {
    await v.run(v.mill.work([reserving]));
    await v.run((await v.run(v.mill.enqueue(ask, { reserve: 80, use: 30 }))).result());
    expect(await v.run(v.mill.budgets.get("tokens"))).toMatchObject({ spent: 30, reserved: 0 });
    await v.run((await v.run(v.mill.enqueue(ask, { reserve: 60, use: null }))).result());
    expect(await v.run(v.mill.budgets.get("tokens"))).toMatchObject({ spent: 30, reserved: 0 });
  });

  test("that does not fit lets the job come again when the period ends, without an attempt used up", async () => {
    await v.run(v.mill.work([reserving]));
    await v.run((await v.run(v.mill.enqueue(ask, { reserve: 80, use: 80 }))).result());
    const handle = await v.run(v.mill.enqueue(ask, { reserve: 30, use: 30 }));
    await v.advance(1000);
    const { endsAt } = await v.run(v.mill.budgets.get("tokens"));
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "scheduled", dueAt: endsAt });
    await v.advance(hourMs);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "completed", attempt: 1 });
  });

  test("that never fits is refused", async () => {
    await v.run(v.mill.work([reserving]));
    const handle = await v.run(v.mill.enqueue(ask, { reserve: 101, use: null }, { retry: { attempts: 1 } }));
    await expect(v.run(handle.result())).rejects.toThrow(coded("job-failed"));
  });
});

describe("a breach", () => {
  const spend = (name: string, onBreach: "hold" | "cancel" | "fail" | "notify", queues: string[] = []) => {
    const cents = budget(name, { hard: 100, soft: 50, reset: { every: "1h" }, onBreach, queues });
    const pay = job<number>("pay", { budgets: [cents] });
    return { cents, pay, paying: handler(pay, async ({ input, usage }) => usage.report(cents, input)) };
  };

  /** The events of budgets so far. */
  async function budgetEvents(): Promise<readonly unknown[]> {
    const found: unknown[] = [];
    const kinds = ["budget-warned", "budget-breached"] as const;
    const ends = new AbortController();
    const events = v.mill.events({ from: "start", kinds: [...kinds], signal: ends.signal });
    const read = (async () => {
      for await (const event of events) found.push([event.kind, event.budget, event.key, event.amount]);
    })();
    await v.advance(2000);
    ends.abort();
    await v.run(read);
    return found;
  }

  test("warns once per period, and acts once per crossing, also after a refund", async () => {
    const { pay, paying } = spend("cents", "hold");
    await v.run(v.mill.work([paying]));
    for (const amount of [60, 10]) await v.run((await v.run(v.mill.enqueue(pay, amount))).result());
    await v.advance(100);
    await v.run((await v.run(v.mill.enqueue(pay, 50))).result());
    await v.advance(100);
    expect(await v.run(v.mill.budgets.refund("cents", 90))).toMatchObject({ spent: 30, heldUntil: null });
    await v.run((await v.run(v.mill.enqueue(pay, 80))).result());
    expect(await budgetEvents()).toEqual([
      ["budget-warned", "cents", null, 60],
      ["budget-breached", "cents", null, 120],
      ["budget-breached", "cents", null, 110],
    ]);
  });

  test.each([
    ["cancel", "cancelled", "budget-spent"],
    ["fail", "failed", "over-budget"],
  ] as const)(
    "that is to %s ends what waits with the budget, and nothing else",
    async (onBreach, state, reason) => {
      const { pay, paying } = spend("cents", onBreach);
      const other = job<number>("other");
      await v.run(v.mill.work([paying]));
      // Held by its queue, so it waits ready.
      await v.run(v.mill.queues.pause("held"));
      const waits = await v.run(v.mill.enqueue(pay, 1, { queue: "held" }));
      const later = await v.run(v.mill.enqueue(pay, 1, { delay: "10m" }));
      const plain = await v.run(v.mill.enqueue(other, 1, { queue: "held" }));
      await v.run((await v.run(v.mill.enqueue(pay, 100))).result());
      await v.advance(1000);
      expect(await v.run(v.mill.jobs.get(waits.id))).toMatchObject({ state, reason });
      const stateOf = async ({ id }: { readonly id: string }) => (await v.run(v.mill.jobs.get(id)))?.state;
      expect(await stateOf(later)).toBe(onBreach === "cancel" ? "cancelled" : "scheduled");
      expect(await stateOf(plain)).toBe("ready");
      const next = await v.run(v.mill.enqueue(pay, 1));
      await v.advance(1000);
      expect((await v.run(v.mill.jobs.get(next.id)))?.state).toBe("ready");
    },
  );

  test("that only notifies holds nothing", async () => {
    const { pay, paying } = spend("cents", "notify");
    await v.run(v.mill.work([paying]));
    for (const amount of [100, 5]) await v.run((await v.run(v.mill.enqueue(pay, amount))).result());
    expect(await v.run(v.mill.budgets.get("cents"))).toMatchObject({ spent: 105, left: 0, heldUntil: null });
    expect(await budgetEvents()).toEqual([["budget-breached", "cents", null, 100]]);
  });

  test("holds the queues of the budget as well, and a refund opens them", async () => {
    const { pay, paying } = spend("cents", "hold", ["mail"]);
    const mail = job<number>("mail", { queue: "mail" });
    await v.run(v.mill.work([paying, handler(mail, () => undefined)]));
    await v.run((await v.run(v.mill.enqueue(pay, 100))).result());
    await v.advance(100);
    const handle = await v.run(v.mill.enqueue(mail, 1));
    await v.advance(1000);
    const { heldUntil } = await v.run(v.mill.budgets.get("cents"));
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({
      ...{ state: "ready", held: { by: "budget", name: "cents", until: heldUntil } },
    });
    await v.run(v.mill.budgets.refund("cents", 1));
    await v.advance(1000);
    expect((await v.run(v.mill.jobs.get(handle.id)))?.state).toBe("completed");
  });

  test("of a budget that was raised opens at once, and an edit is kept over the definition", async () => {
    const { cents, pay, paying } = spend("cents", "hold");
    await v.run(v.mill.work([paying]));
    await v.run((await v.run(v.mill.enqueue(pay, 100))).result());
    await v.advance(100);
    const handle = await v.run(v.mill.enqueue(pay, 1));
    await v.advance(1000);
    await v.run(v.mill.budgets.edit("cents", { hard: 200 }));
    await v.advance(1000);
    expect((await v.run(v.mill.jobs.get(handle.id)))?.state).toBe("completed");
    expect(await v.run(v.mill.budgets.define(cents))).toMatchObject({
      hard: 200,
      edited: { hard: 200 },
      left: 99,
    });
    expect(await v.run(v.mill.budgets.edit("cents", { hard: null }))).toMatchObject({ hard: 100, left: 0 });
    expect(await v.run(v.mill.budgets.reset("cents"))).toMatchObject({ spent: 0, heldUntil: null });
  });
});

describe("the duty budget-reset", () => {
  const tokens = budget("tokens", { hard: 100, reset: { every: "1h" }, keep: 2 });
  const ask = job<number>("ask", { budgets: [tokens] });

  test("gives back what an attempt had reserved whose lease is gone, and nothing of one that lives", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const asking = handler(ask, async ({ input, usage }) => {
      await usage.reserve(tokens, input);
      if (input === 40) await promise;
    });
    await v.run(v.mill.work([asking]));
    const lives = await v.run(v.mill.enqueue(ask, 40));
    await v.run((await v.run(v.mill.enqueue(ask, 30))).result());
    expect(await v.run(v.mill.budgets.get("tokens"))).toMatchObject({ spent: 70, reserved: 70 });
    expect(await v.run(v.mill.duties.run("budget-reset"))).toMatchObject({ outcomes: { released: 1 } });
    expect(await v.run(v.mill.budgets.get("tokens"))).toMatchObject({ spent: 40, reserved: 40 });
    resolve();
    await v.run(lives.result());
    await v.run(v.mill.duties.run("budget-reset"));
    expect(await v.run(v.mill.budgets.get("tokens"))).toMatchObject({ spent: 0, reserved: 0 });
  });

  test("mends a gate that a lost write left closed or open, and keeps a number of periods", async () => {
    await v.run(v.mill.work([handler(ask, async ({ input, usage }) => usage.report(tokens, input))]));
    await v.run((await v.run(v.mill.enqueue(ask, 100))).result());
    await v.advance(100);
    const put = { cap: null, rate: null, isIntakeClosed: false, guard: "any" } as const;
    const [gate] = (await v.run(v.store.readGates({ keys: ["b:tokens"] }))).gates;
    const { body } = gate!;
    await v.run(v.store.putGates([{ ...put, key: "b:tokens", body, closed: null }]));
    await v.run(v.mill.duties.run("budget-reset"));
    const { heldUntil, endsAt } = await v.run(v.mill.budgets.get("tokens"));
    expect(heldUntil).toEqual(endsAt);
    const closed = { inMs: 2 * hourMs };
    await v.run(v.store.putGates([{ ...put, key: "b:tokens\tacme", body: null, closed }]));
    await v.run(v.mill.duties.run("budget-reset"));
    expect(await v.run(v.mill.budgets.get("tokens", { key: "acme" }))).toMatchObject({ heldUntil: endsAt });
    for (let hours = 0; hours < 3; hours++) {
      await v.advance(hourMs);
      await v.run((await v.run(v.mill.enqueue(ask, 1))).result());
    }
    await v.run(v.mill.duties.run("budget-reset"));
    expect((await v.run(v.mill.budgets.get("tokens"))).periods.map(({ spent }) => spent)).toEqual([1, 1]);
    expect((await v.run(v.mill.duties.list())).map(({ duty }) => duty)).toContain("budget-reset");
  });
});
