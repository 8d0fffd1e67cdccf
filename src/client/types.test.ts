import { expectTypeOf, test } from "vitest";
import { z } from "zod";
import { job } from "../engine/definition.ts";
import type { InputOf, ResultOf } from "../engine/definition.ts";
import { handler } from "../worker/handler.ts";
import type { JobHandle } from "./job-handle.ts";
import type { Millrace } from "./millrace.ts";

const typed = job("typed", {
  input: z.object({ when: z.string().transform((text) => text.length) }),
  result: z.object({ ok: z.boolean() }),
});
const byHand = job<{ n: number }, string>("by-hand");
const untyped = job("untyped");

test("types flow from the definition to producer, handler and result", () => {
  expectTypeOf<InputOf<typeof typed>>().toEqualTypeOf<{ when: string }>();
  expectTypeOf<ResultOf<typeof typed>>().toEqualTypeOf<{ ok: boolean }>();
  handler(typed, async ({ input }) => {
    expectTypeOf(input).toEqualTypeOf<{ when: number }>();
    return { ok: true };
  });
  // @ts-expect-error a result of another type
  handler(typed, async () => ({ ok: "yes" }));
  handler(untyped, async ({ input }) => expectTypeOf(input).toBeUnknown());
  const useMill = (mill: Millrace): void => {
    expectTypeOf(mill.enqueue(typed, { when: "x" })).toEqualTypeOf<Promise<JobHandle<{ ok: boolean }>>>();
    // @ts-expect-error an input of another type
    void mill.enqueue(byHand, { n: "1" });
    // @ts-expect-error an option that does not exist
    void mill.enqueue(byHand, { n: 1 }, { dealy: 1 });
    expectTypeOf(mill.enqueueMany([typed.with({ when: "x" }), byHand.with({ n: 1 })])).resolves.toEqualTypeOf<
      readonly [JobHandle<{ ok: boolean }>, JobHandle<string>]
    >();
  };
  expectTypeOf(useMill).toBeFunction();
});
