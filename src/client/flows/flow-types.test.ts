// The types of a flow's builder: results of parents by name, and which input may hold which of them.
import { expectTypeOf, test } from "vitest";
import { z } from "zod";
import { job } from "../../engine/submit/job-definition.ts";
import { flow } from "../../engine/flows/flow.ts";
import type { ResultsOf } from "../../engine/flows/flow.ts";
import type { FlowNode, FlowPart } from "../../engine/flows/flow-options.ts";
import { handler } from "../../worker/handler.ts";
import type { Millrace } from "../millrace.ts";

const fetchRows = job("fetch", {
  input: z.object({ month: z.string() }),
  result: z.object({
    pages: z.array(z.object({ number: z.number(), title: z.string().optional() })),
    total: z.number(),
    by: z.tuple([z.string(), z.number()]),
  }),
});
const render = job<{ number: number; title?: string }, string>("render");
const merge = job<{ pages: readonly string[]; total: number }, { bytes: Uint8Array; at: Date }>("merge");
const either = job<{ of: string }, { kind: "sent"; id: string } | { kind: "held" }>("either");
const post = job<{ text: string; to?: string }, void>("post");
const count = job<number, number>("count");

// Never called: only the types of results are checked.
async function results(mill: Millrace): Promise<void> {
  const built = flow("built");
  const numbers = built.map("numbers", count, [1, 2]);
  const last = built.chain("chain", [render.with({ number: 1 }), count.with(2)]);
  expectTypeOf(await (await mill.submit(built)).result()).toEqualTypeOf<Readonly<Record<string, unknown>>>();
  const typed = built.returns({ all: numbers, last });
  const run = await mill.submit(typed);
  expectTypeOf(await run.result()).toEqualTypeOf<{
    readonly all: readonly number[];
    readonly last: number;
  }>();
  const known = mill.flows.run<ResultsOf<typeof typed>>(run.id);
  expectTypeOf((await known.result()).last).toEqualTypeOf<number>();
  const outer = flow("outer");
  outer.add("sum", count, outer.sub("inner", typed).result.last);
  // @ts-expect-error -- a list in place of a number
  outer.add("wrong", count, outer.sub("again", typed).result.all);
  // @ts-expect-error -- a flow returns nodes
  built.returns({ all: "numbers" });

  const plain = flow("plain", {
    nodes: { first: count.with(1), text: render.with({ number: 2 }), rescue: post.with({ text: "sorry" }) },
    edges: [
      { from: "first", to: "text" },
      { from: "text", to: "rescue", on: "failure" },
    ],
  });
  const answered = await (await mill.submit(plain)).result();
  expectTypeOf(answered.text).toEqualTypeOf<string>();
  expectTypeOf<ResultsOf<typeof plain>>().toHaveProperty("rescue");
  expectTypeOf<Pick<ResultsOf<typeof plain>, "rescue">>().toEqualTypeOf<{ readonly rescue?: void }>();
  // @ts-expect-error -- another node waits for its success
  expectTypeOf(answered.first).toBeNumber();
  const edges: { from: string; to: string }[] = [];
  const unknown = flow("unknown", { nodes: { a: count.with(1), b: render.with({ number: 1 }) }, edges });
  expectTypeOf<ResultsOf<typeof unknown>>().toEqualTypeOf<{ readonly a?: number; readonly b?: string }>();
}

// Never called: only its types are checked.
function typed(): void {
  const given = flow("typed");
  const rows = given.add("fetch", fetchRows, { month: "2026-10" });
  expectTypeOf(rows).toEqualTypeOf<
    FlowNode<{
      pages: { number: number; title?: string | undefined }[];
      total: number;
      by: [string, number];
    }>
  >();
  // @ts-expect-error -- the input of the node itself is wrong
  given.add("wrong", fetchRows, { month: 10 });
  // @ts-expect-error -- no such part of the result
  given.add("wrong", count, rows.result.sum);
  // @ts-expect-error -- a text instead of a number
  given.add("wrong", count, rows.result.by[0]);

  given.add("whole", count, rows.result.total);
  given.add("second", post, { text: "no part of it", to: rows.result.by[0] });
  const pages = given.map("render", render, rows.result.pages, { concurrency: 2 });
  expectTypeOf(pages).toEqualTypeOf<FlowPart<string>>();
  // @ts-expect-error -- a list of other items
  given.map("wrong", count, rows.result.pages);
  given.map("known", count, [1, rows.result.total]);
  const merged = given.add("merge", merge, { pages: pages.results, total: rows.result.total });
  given.add("some", merge, { pages: [pages.results[0]!, "cover"], total: 1 });
  // @ts-expect-error -- numbers instead of texts
  given.add("wrong", merge, { pages: given.map("m", count, [1]).results, total: 1 });
  expectTypeOf(merged).toEqualTypeOf<FlowNode<{ bytes: Uint8Array; at: Date }>>();
  const takesDate = job<{ at: Date; bytes: Uint8Array }>("takes");
  given.add("date", takesDate, { at: merged.result.at, bytes: merged.result.bytes });
  given.add("date too", takesDate, merged.result);

  const race = given.race("race", [count.with(1), post.with({ text: "" }), render.with({ number: 1 })]);
  expectTypeOf(race).toEqualTypeOf<FlowPart<number | void | string>>();
  const group = given.group("group", [count.with(1), count.with(2)]);
  const takesNumbers = job<readonly number[]>("numbers");
  given.add("sum", takesNumbers, group.results);
  const chord = given.chord("chord", [count.with(1)], merge, (counts) => ({ pages: [], total: counts[0]! }));
  expectTypeOf(chord).toEqualTypeOf<FlowNode<{ bytes: Uint8Array; at: Date }>>();
  const chain = given.chain("chain", [count.with(1), either.with({ of: "x" })]);
  given.add("kind", post, { text: chain.result.kind });
  // @ts-expect-error -- a field that only one of two kinds of result has
  given.add("wrong", post, { text: chain.result.id });

  const sub = given.sub<{ total: number }>("sub", flow("inner"));
  given.add("behind", count, sub.result.total, { after: [chain, race, "fetch"] });
  given.add("all of it", job<unknown>("any"), given.sub("other", flow("inner")).result);

  handler(render, async ({ flow: own, input }) => {
    const added = own?.add("more", count, input.number);
    expectTypeOf(added).toEqualTypeOf<FlowNode<number> | undefined>();
    return "";
  });
}

test("the types of a flow's builder", () => {
  expectTypeOf(typed).toBeFunction();
  expectTypeOf(results).toBeFunction();
});
