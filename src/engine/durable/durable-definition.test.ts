// The types of durable jobs: checked by tsc, so the test only has to be compiled.
import { expectTypeOf, test } from "vitest";
import { z } from "zod";
import type { Arrived, Decision, Step, TimedOut } from "../../worker/durable/step.ts";
import { job } from "../submit/job-definition.ts";
import type { SentOf, SignalsOf } from "./durable-definition.ts";

const define = () =>
  job("order", {
    input: z.object({ id: z.string(), cents: z.number().default(0) }),
    signals: {
      paid: z.object({ ref: z.string(), at: z.coerce.date() }),
      manager: z.object({ ok: z.boolean() }),
    },
    durable: { version: 2 },
  });
const defineBare = () => job("bare", { input: z.object({}), durable: { version: 1 } });

type Order = ReturnType<typeof define>;

test("a definition knows what each signal is when it is sent and when it is read", () => {
  expectTypeOf<SentOf<Order>["manager"]>().toEqualTypeOf<{ ok: boolean }>();
  expectTypeOf<SignalsOf<Order>["paid"]>().toEqualTypeOf<{ ref: string; at: Date }>();
  expectTypeOf<keyof SentOf<Order>>().toEqualTypeOf<"paid" | "manager">();
  expectTypeOf<keyof SignalsOf<ReturnType<typeof defineBare>>>().toEqualTypeOf<never>();
});

test("a step is typed by its definition", () => {
  const check = async (step: Step<SignalsOf<Order>>): Promise<void> => {
    expectTypeOf(await step.run("a", () => ({ hold: 1 }))).toEqualTypeOf<{ hold: number }>();
    expectTypeOf(
      await step.run("a", async () => "b", { undo: (value) => value.length }),
    ).toEqualTypeOf<string>();
    expectTypeOf(await step.waitFor("paid")).toEqualTypeOf<Arrived<{ ref: string; at: Date }>>();
    expectTypeOf(await step.waitFor("paid", { timeout: "2d", onTimeout: "return" })).toEqualTypeOf<
      Arrived<{ ref: string; at: Date }> | TimedOut
    >();
    expectTypeOf(await step.approval("manager", { timeout: "7d" })).toEqualTypeOf<
      Decision<{ ok: boolean }>
    >();
    // @ts-expect-error -- no such signal
    await step.waitFor("unknown");
    // @ts-expect-error -- a wait that returns at its timeout has one
    await step.waitFor("paid", { onTimeout: "return" });
    const raced = await step.race({ n: async () => 1, s: async () => "x" });
    if (raced.winner === "n") expectTypeOf(raced.value).toEqualTypeOf<number>();
    else expectTypeOf(raced.value).toEqualTypeOf<string>();
    expectTypeOf(await step.each("e", [1, 2], String, async (item) => item > 1)).toEqualTypeOf<boolean[]>();
    expectTypeOf(step.continueWith({})).toEqualTypeOf<never>();
  };
  expectTypeOf(check).toBeFunction();
});
