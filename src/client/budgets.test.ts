import { describe, expect, test } from "vitest";
import { useVirtualMill } from "../../test/support/virtual/use-virtual-mill.ts";
import { budget } from "../engine/budgets/budget-definition.ts";
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
