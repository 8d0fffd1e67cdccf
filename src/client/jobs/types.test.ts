import type { CallersConnection } from "../../store/callers-connection.ts";
import { type } from "arktype";
import * as v from "valibot";
import { describe, expectTypeOf, test } from "vitest";
import { z } from "zod";
import { job } from "../../engine/submit/job-definition.ts";
import { limit } from "../../engine/limits/limit-definition.ts";
import type { Limit, LimitUse } from "../../engine/limits/limit-definition.ts";
import type { InputOf, ResultOf } from "../../engine/submit/job-definition.ts";
import type { TestMillrace } from "../../testing/test-millrace.ts";
import { subscription, topic } from "../../engine/topics/topic-definition.ts";
import { Throttled } from "../../worker/control.ts";
import { batchHandler, handler } from "../../worker/handler.ts";
import type { JobContext } from "../../worker/run/job-context.ts";
import type { JobHandle } from "./job-handle.ts";
import type { Millrace } from "../millrace.ts";

/** The same job in every way to write it: an enum, a literal, a tuple, an optional part, a result of two kinds. */
type Input = {
  kind: "small" | "large";
  version: 1;
  box: [number, number];
  note?: string | undefined;
  card: { number: string };
};
type Result = { state: "sent"; id: string } | { state: "held" };

const written = {
  zod: job("zod", {
    input: z.object({
      kind: z.enum(["small", "large"]),
      version: z.literal(1),
      box: z.tuple([z.number(), z.number()]),
      note: z.string().optional(),
      card: z.object({ number: z.string() }),
    }),
    result: z.union([
      z.object({ state: z.literal("sent"), id: z.string() }),
      z.object({ state: z.literal("held") }),
    ]),
    unique: { fields: ["card.number", "box.0"] },
  }),
  valibot: job("valibot", {
    input: v.object({
      kind: v.picklist(["small", "large"]),
      version: v.literal(1),
      box: v.tuple([v.number(), v.number()]),
      note: v.optional(v.string()),
      card: v.object({ number: v.string() }),
    }),
    result: v.union([
      v.object({ state: v.literal("sent"), id: v.string() }),
      v.object({ state: v.literal("held") }),
    ]),
    unique: { fields: ["card.number"] },
  }),
  arktype: job("arktype", {
    input: type({
      kind: "'small' | 'large'",
      version: "1",
      box: ["number", "number"],
      "note?": "string | undefined",
      card: { number: "string" },
    }),
    result: type({ state: "'sent'", id: "string" }).or({ state: "'held'" }),
    unique: { fields: ["card.number"] },
  }),
  generics: job<Input, Result>("generics", { unique: { fields: ["card.number"] } }),
};

// The functions below are compiled and never called. Each line that must not compile has a `@ts-expect-error`, and one
// that is not needed is an error.
declare const mill: Millrace;
declare const tested: TestMillrace;
declare const connection: CallersConnection;

const card = { number: "1" };

describe("inputs and results have the types of the definition", () => {
  test("whichever library made the schema", () => {
    expectTypeOf<InputOf<typeof written.zod>>().toEqualTypeOf<Input>();
    expectTypeOf<InputOf<typeof written.valibot>>().toEqualTypeOf<Input>();
    expectTypeOf<InputOf<typeof written.arktype>>().toEqualTypeOf<Input>();
    expectTypeOf<InputOf<typeof written.generics>>().toEqualTypeOf<Input>();
    expectTypeOf<ResultOf<typeof written.zod>>().toEqualTypeOf<Result>();
    expectTypeOf<ResultOf<typeof written.valibot>>().toEqualTypeOf<Result>();
    expectTypeOf<ResultOf<typeof written.arktype>>().toEqualTypeOf<Result>();
    expectTypeOf<ResultOf<typeof written.generics>>().toEqualTypeOf<Result>();
  });

  test("the key of a limit knows the input of a schema", () => {
    expectTypeOf(() => {
      const api = limit("api", { perKey: { concurrency: 1 } });
      job("charged", {
        input: z.object({ tenant: z.string() }),
        limits: [
          {
            limit: api,
            key: (input) => {
              expectTypeOf(input).toEqualTypeOf<{ tenant: string }>();
              return input.tenant;
            },
          },
        ],
      });
    }).toBeFunction();
  });

  test("an input of literals needs no annotation, wherever it is enqueued", () => {
    expectTypeOf(async () => {
      for (const each of [written.zod, written.valibot, written.arktype, written.generics] as const) {
        await mill.enqueue(each, { kind: "small", version: 1, box: [1, 2], card });
        await mill.in(connection).enqueue(each, { kind: "large", version: 1, box: [1, 2], card });
        await tested.enqueue(each, { kind: "large", version: 1, box: [1, 2], card, note: "x" });
        await mill.enqueueMany([each.with({ kind: "large", version: 1, box: [1, 2], card })]);
        handler(job("first"), async ({ enqueue, whenFailed }) => {
          enqueue(each, { kind: "small", version: 1, box: [1, 2], card });
          whenFailed.enqueue(each, { kind: "small", version: 1, box: [1, 2], card });
          // @ts-expect-error a kind that does not exist
          enqueue(each, { kind: "medium", version: 1, box: [1, 2], card });
        });
        // @ts-expect-error a kind that does not exist
        await mill.enqueue(each, { kind: "medium", version: 1, box: [1, 2], card });
        // @ts-expect-error another version
        await mill.in(connection).enqueue(each, { kind: "small", version: 2, box: [1, 2], card });
        // @ts-expect-error a longer tuple
        await tested.enqueue(each, { kind: "small", version: 1, box: [1, 2, 3], card });
        // @ts-expect-error a missing field
        each.with({ kind: "small", version: 1, box: [1, 2] });
      }
    }).toBeFunction();
  });

  test("the handles have the type of the result", () => {
    expectTypeOf(() => {
      const input = { kind: "small", version: 1, box: [1, 2], card } satisfies Input as Input;
      expectTypeOf(mill.enqueue(written.zod, input)).resolves.toEqualTypeOf<JobHandle<Result>>();
      expectTypeOf(mill.handle(written.arktype, "id")).toEqualTypeOf<JobHandle<Result>>();
      expectTypeOf(mill.handle("id")).toEqualTypeOf<JobHandle<unknown>>();
      const mixed = mill.enqueueMany([written.valibot.with(input), job<number, string>("n").with(1)]);
      expectTypeOf(mixed).resolves.toEqualTypeOf<readonly [JobHandle<Result>, JobHandle<string>]>();
    }).toBeFunction();
  });

  test("views have the types of their definition", () => {
    expectTypeOf(async () => {
      const view = await mill.jobs.get(written.zod, "id");
      expectTypeOf(view!.input).toEqualTypeOf<Input>();
      expectTypeOf(view!.result).toEqualTypeOf<Result | undefined>();
      expectTypeOf((await mill.jobs.get("id"))!.input).toBeUnknown();
      const { jobs } = await mill.jobs.list({ job: written.arktype, state: ["failed", "cancelled"] });
      expectTypeOf(jobs[0]!.input).toEqualTypeOf<Input>();
      for await (const each of mill.jobs.find({ job: written.generics }))
        expectTypeOf(each.result).toEqualTypeOf<Result | undefined>();
    }).toBeFunction();
  });
});

describe("a handler returns what the definition says", () => {
  test("in each form that it may return", () => {
    expectTypeOf(() => {
      for (const each of [written.zod, written.valibot, written.arktype, written.generics] as const) {
        handler(each, async ({ input }) => {
          expectTypeOf(input.kind).toEqualTypeOf<"small" | "large">();
          return input.box[0] > 1 ? { state: "sent", id: "1" } : { state: "held" };
        });
        // @ts-expect-error a missing field
        handler(each, async () => ({ state: "sent" as const }));
        // @ts-expect-error nothing
        handler(each, async () => undefined);
        // @ts-expect-error nothing at all
        handler(each, async () => {});
        // @ts-expect-error a wrong literal
        handler(each, async () => ({ state: "lost" as const }));
        batchHandler(each, { size: 2 }, async (jobs) => jobs.map(() => ({ state: "held" as const })));
        // @ts-expect-error a wrong literal
        batchHandler(each, { size: 2 }, async (jobs) => jobs.map(() => ({ state: "lost" as const })));
      }
      handler(job("untyped"), async ({ input }) => expectTypeOf(input).toBeUnknown());
      handler(job<number>("no-result"), async () => {});
    }).toBeFunction();
  });

  test("and so does completeIn", () => {
    expectTypeOf(() => {
      handler(written.zod, async ({ completeIn }) => {
        await completeIn(connection, { state: "held" });
        // @ts-expect-error a missing field
        await completeIn(connection, { state: "sent" });
        // @ts-expect-error no result
        await completeIn(connection);
        return { state: "held" };
      });
      handler(job("untyped"), ({ completeIn }) => completeIn(connection));
      const helper = (context: JobContext): string => context.id;
      handler(written.generics, (context) => (helper(context), { state: "held" }));
    }).toBeFunction();
  });

  test("a schema that transforms has a type for input and one for output", () => {
    const typed = job("typed", {
      input: z.object({ when: z.string().transform((text) => text.length) }),
      result: z.object({ ok: z.boolean().default(true) }),
    });
    expectTypeOf<InputOf<typeof typed>>().toEqualTypeOf<{ when: string }>();
    expectTypeOf<ResultOf<typeof typed>>().toEqualTypeOf<{ ok: boolean }>();
    expectTypeOf(() =>
      handler(typed, async ({ input }) => {
        expectTypeOf(input).toEqualTypeOf<{ when: number }>();
        return {};
      }),
    ).toBeFunction();
  });
});

describe("options are typed too", () => {
  test("a field of a unique key must be one of the input", () => {
    expectTypeOf(() => {
      const input = { kind: "small", version: 1, box: [1, 2], card } satisfies Input as Input;
      void mill.enqueue(written.zod, input, { unique: { fields: ["card.number", "box.1", "note"] } });
      // @ts-expect-error no such field
      void mill.enqueue(written.zod, input, { unique: { fields: ["card.nummber"] } });
      // @ts-expect-error no such field
      written.arktype.with(input, { unique: { fields: ["kin"] } });
      // @ts-expect-error no such field
      job("x", { input: z.object({ to: z.string() }), unique: { fields: ["tO"] } });
      // @ts-expect-error no such field
      job<{ to: string }>("x", { unique: { fields: ["tO"] } });
      void mill.enqueue(job("untyped"), {}, { unique: { fields: ["anything.at.all"] } });
      void mill.enqueue(
        job<{ "a.b": { c: 1 } }>("dots"),
        { "a.b": { c: 1 } },
        { unique: { fields: ["a\\.b.c"] } },
      );
    }).toBeFunction();
  });

  test("capabilities are lists of names, of a job and of a worker", () => {
    expectTypeOf(() => {
      const render = job<number>("render", { requires: ["gpu"] as const });
      void mill.enqueue(render, 1, { requires: ["gpu", "eu"] });
      void mill.in(connection).enqueue(render, 1, { requires: [] });
      void tested.enqueue(render, 1, { requires: ["eu"] });
      render.with(1, { requires: ["eu"] });
      void mill.work(
        [handler(render, async ({ enqueue }) => void enqueue(render, 2, { requires: ["eu"] }))],
        {
          capabilities: ["gpu"] as const,
        },
      );
      expectTypeOf(mill.jobs.get("id").then((view) => view!.requires)).resolves.toEqualTypeOf<
        readonly string[]
      >();
      // @ts-expect-error a name in place of a list
      void mill.enqueue(render, 1, { requires: "gpu" });
      // @ts-expect-error numbers
      job<number>("x", { requires: [1] });
      // @ts-expect-error a worker offers, it does not require
      void mill.work([handler(render, async () => {})], { requires: ["gpu"] });
    }).toBeFunction();
  });

  test("an option that does not exist is an error", () => {
    expectTypeOf(() => {
      // @ts-expect-error an option that does not exist
      void mill.enqueue(job<number>("n"), 1, { dealy: 1 });
    }).toBeFunction();
  });
});

describe("limits", () => {
  const slack = limit("slack", { concurrency: 5, rate: { max: 100, per: "1m" } });

  test("a limit and its use go into a definition, an enqueue and a throttle", () => {
    expectTypeOf(slack).toEqualTypeOf<Limit>();
    expectTypeOf(slack.use({ weight: 2 })).toEqualTypeOf<LimitUse>();
    const send = job<number, string>("send", { limits: [slack, limit("other").use()], throttlesMax: 3 });
    expectTypeOf<InputOf<typeof send>>().toEqualTypeOf<number>();
    expectTypeOf(() => send.with(1, { limits: [slack.use({ weight: 2 })] })).toBeFunction();
    expectTypeOf(Throttled).toBeConstructibleWith(slack, { retryAfter: "1m" });
    expectTypeOf(Throttled).toBeConstructibleWith("slack");
  });

  test("wrong limits do not compile", () => {
    expectTypeOf(() => {
      // @ts-expect-error a limit needs a name
      limit();
      // @ts-expect-error a rate needs its time
      limit("a", { rate: { max: 1 } });
      // @ts-expect-error a name is no limit
      job("a", { limits: ["slack"] });
      // @ts-expect-error a key is a text
      slack.use({ key: 5 });
      // @ts-expect-error the input has no such field
      job<{ tenant: string }>("a", { limits: [slack.use({ key: (input) => input.customer })] });
    }).toBeFunction();
  });

  test("a key and a group are functions of the job's own input", () => {
    const perKey = limit("api", { perKey: { concurrency: 5, rate: { max: 2, per: "1s" } } });
    const summarise = job("summarise", {
      input: z.object({ tenant: z.string(), size: z.number() }),
      limits: [perKey.use({ key: (input) => input.tenant, weight: 2 }), slack],
      group: { key: (input) => input.tenant, weight: (input) => input.size },
    });
    expectTypeOf<InputOf<typeof summarise>>().toEqualTypeOf<{ tenant: string; size: number }>();
    const send = job<{ to: string }>("send", { group: (input) => input.to, order: "lifo" });
    expectTypeOf(() => send.with({ to: "a" }, { group: "b" })).toBeFunction();
    expectTypeOf(() =>
      send.with({ to: "a" }, { limits: [perKey.use({ key: ({ to }) => to })] }),
    ).toBeFunction();
    expectTypeOf(() => mill.limits.state("api", { key: "a" })).returns.resolves.toHaveProperty("key");
    expectTypeOf(() => {
      // @ts-expect-error the input has no such field
      job<{ to: string }>("a", { group: (input) => input.customer });
      // @ts-expect-error a key is a text
      job<{ to: string }>("a", { group: { key: () => 5 } });
      // @ts-expect-error a group needs a key
      job<{ to: string }>("a", { group: { concurrency: 1 } });
    }).toBeFunction();
  });
});

describe("topics", () => {
  test("a subscription's job takes the topic's input, and may require less of it", () => {
    const placed = topic("placed", { input: z.object({ id: z.string(), sum: z.number() }) });
    const mill = {} as Millrace;
    expectTypeOf(() => subscription(placed, job<{ id: string }>("ship"))).toBeFunction();
    expectTypeOf(() =>
      subscription(placed, job("pack", { input: z.object({ sum: z.number() }) })),
    ).toBeFunction();
    expectTypeOf(() => mill.publish(placed, { id: "1", sum: 2 })).toBeFunction();
    expectTypeOf(() => {
      // @ts-expect-error the job wants more than the topic has
      subscription(placed, job<{ id: string; note: string }>("note"));
      // @ts-expect-error another type
      subscription(placed, job<{ id: number }>("count"));
      // @ts-expect-error a missing field
      void mill.publish(placed, { id: "1" });
    }).toBeFunction();
  });
});
