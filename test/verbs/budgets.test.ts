// Budgets on every store: counts are exact under concurrent and lost calls, reservations stay below the bound, a breach
// holds, and what opens a gate lets the jobs start.
import { beforeEach, describe, expect, test } from "vitest";
import { budget, handler, job } from "../../src/index.ts";
import type { Millrace } from "../../src/client/millrace.ts";
import { MillraceError } from "../../src/model/error.ts";
import type { Store } from "../../src/store/store.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { hangMs } from "../support/hang-ms.ts";
import { millOn } from "../support/mill-on.ts";
import { usePlaces } from "../support/servers/use-places.ts";
import { until } from "../support/until.ts";

const closeLater = closeAfterEach();
const reset = { every: "30d" } as const;

/** Every third submit without jobs is applied, and its reply is lost. */
function losingReplies(store: Store): { readonly store: Store; readonly lost: () => number } {
  let [calls, lost] = [0, 0];
  const submit: Store["submit"] = async (units) => {
    const answers = await store.submit(units);
    if (units.some(({ jobs }) => jobs.length > 0) || ++calls % 3 !== 0) return answers;
    lost += 1;
    throw new MillraceError("outcome-unknown", "The reply was lost.");
  };
  const losing = new Proxy(store, {
    get: (target, name) => {
      if (name === "submit") return submit;
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  return { store: losing, lost: () => lost };
}

describe.each(usePlaces())("budgets on %s", (_title, place) => {
  let store: Store;
  let mill: Millrace;
  let lost: () => number;
  beforeEach(async () => {
    ({ store, lost } = losingReplies(await place()()));
    mill = closeLater(millOn(store));
  });

  test("count each report once, of all jobs and of each key, whichever replies are lost", async () => {
    const tokens = budget("tokens", { hard: 1_000_000, perKey: { soft: 500_000 }, reset });
    const ask = job<{ tenant: string; amount: number }>("ask", {
      budgets: [tokens.use({ key: (input: { tenant: string }) => input.tenant })],
    });
    await mill.work(
      [
        handler(ask, async ({ input, usage }) => {
          for (const part of [1, 2]) await usage.report(tokens, input.amount * part);
        }),
      ],
      { concurrency: 20 },
    );
    const amounts = Array.from({ length: 60 }, (_, at) => at + 1);
    const handles = await Promise.all(
      amounts.map((amount) => mill.enqueue(ask, { tenant: `t${amount % 3}`, amount })),
    );
    await Promise.all(handles.map((handle) => handle.result({ timeout: hangMs })));
    const sum = (of: readonly number[]): number => of.reduce((total, amount) => total + 3 * amount, 0);
    const { spent, keys } = await mill.budgets.get("tokens");
    expect(spent).toBe(sum(amounts));
    for (const rest of [0, 1, 2])
      expect(keys).toContainEqual({
        key: `t${rest}`,
        spent: sum(amounts.filter((amount) => amount % 3 === rest)),
      });
    expect(lost()).toBeGreaterThan(0);
  });

  test("let reservations of many jobs at once never be above the bound, and give back what is not used", async () => {
    const cents = budget("cents", { hard: 100, reset });
    const pay = job<number>("pay", { budgets: [cents] });
    const { promise: end, resolve } = Promise.withResolvers<void>();
    let reserved = 0;
    await mill.work(
      [
        handler(pay, async ({ input, usage }) => {
          await using hold = await usage.reserve(cents, 30);
          reserved += hold.amount;
          await end;
          if (input > 0) await hold.settle(input);
        }),
      ],
      { concurrency: 10 },
    );
    const handles = await Promise.all([1, 2, 0, 3, 0, 5, 6].map((input) => mill.enqueue(pay, input)));
    await until("what fits is reserved, and the rest is put off", async () => {
      const { default: counts } = await mill.jobs.counts();
      return counts?.running === 3 && counts.scheduled === 4;
    });
    expect(reserved).toBe(90);
    expect(await mill.budgets.get("cents")).toMatchObject({ spent: 90, reserved: 90, left: 10 });
    resolve();
    const states = async (): Promise<readonly (string | undefined)[]> =>
      Promise.all(handles.map(async ({ id }) => (await mill.jobs.get(id))?.state));
    await until(
      "three have ended",
      async () => (await states()).filter((state) => state === "completed").length === 3,
    );
    const completed = await Promise.all(handles.map(({ id }) => mill.jobs.get(id)));
    const used = completed.reduce(
      (sum, view) => sum + (view?.state === "completed" ? Number(view.input) : 0),
      0,
    );
    expect(await mill.budgets.get("cents")).toMatchObject({ spent: used, reserved: 0 });
  });

  test("hold the jobs of a spent key alone, until a refund or a higher bound", async () => {
    const tokens = budget("tokens", { perKey: { hard: 10 }, reset });
    const ask = job<string>("ask", { budgets: [tokens.use({ key: (tenant: string) => tenant })] });
    await mill.work([handler(ask, async ({ usage }) => usage.report(tokens, 10))]);
    await (await mill.enqueue(ask, "acme")).result({ timeout: hangMs });
    await until(
      "the key is held",
      async () => (await mill.budgets.get("tokens", { key: "acme" })).heldUntil !== null,
    );
    const [acme, other] = await Promise.all(["acme", "other"].map((tenant) => mill.enqueue(ask, tenant)));
    await other!.result({ timeout: hangMs });
    expect(await mill.jobs.get(acme!.id)).toMatchObject({
      ...{ state: "ready", held: { by: "budget", name: "tokens", key: "acme" } },
    });
    expect(await mill.explain(acme!.id)).toMatchObject({
      held: { by: "budget", name: "tokens", key: "acme" },
    });
    await mill.budgets.refund("tokens", 10, { key: "acme" });
    await acme!.result({ timeout: hangMs });
    const again = await mill.enqueue(ask, "other");
    await mill.budgets.edit("tokens", { perKey: { hard: 100 } });
    await again.result({ timeout: hangMs });
    expect(await mill.budgets.get("tokens")).toMatchObject({
      spent: 30,
      perKey: { hard: 100 },
      heldUntil: null,
    });
  });

  test("cancel what waits once the budget is spent", async () => {
    const cents = budget("cents", { hard: 10, reset, onBreach: "cancel" });
    const pay = job<number>("pay", { budgets: [cents] });
    await mill.work([handler(pay, async ({ input, usage }) => usage.report(cents, input))]);
    const later = await Promise.all([1, 2, 3].map(() => mill.enqueue(pay, 1, { delay: "1h" })));
    await (await mill.enqueue(pay, 10)).result({ timeout: hangMs });
    await until("all are cancelled", async () =>
      (await Promise.all(later.map(({ id }) => mill.jobs.get(id)))).every(
        (view) => view?.reason === "budget-spent",
      ),
    );
    expect(await mill.budgets.list()).toMatchObject([{ name: "cents", spent: 10, left: 0 }]);
  });
});
