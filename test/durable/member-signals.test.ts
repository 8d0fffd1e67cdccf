// Signals to runs that are nodes of flows, also of hidden ones, on every store.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { flow, handler, job } from "../../src/index.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { hangMs } from "../support/hang-ms.ts";
import { millOn } from "../support/mill-on.ts";
import { usePlaces } from "../support/servers/use-places.ts";
import { until } from "../support/until.ts";

const signals = { go: z.string() };
const prepare = job<null, string>("prepare");
const approve = job("approve", { input: z.string(), signals, durable: { version: 1 } });
const parent = job("parent", { input: z.null(), durable: { version: 1 } });

describe.each(usePlaces())("on %s", (_title, place) => {
  const closeLater = closeAfterEach();

  test("a node takes a signal before its edges let it run, and while it waits; a broadcast reaches all nodes", async () => {
    const open = place();
    const mill = closeLater(millOn(await open()));
    const made = flow("release");
    const prepared = made.add("prepare", prepare, null);
    for (const name of ["one", "two", "three"]) made.add(name, approve, prepared.result);
    const run = await mill.submit(made);
    const idOf = (name: string): string => `${run.id}.${name}`;
    expect(await mill.signal(approve, idOf("one"), "go", "early", { key: "e" })).toEqual({
      kind: "buffered",
    });
    expect(await mill.signal(approve, idOf("one"), "go", "early", { key: "e" })).toEqual({
      kind: "duplicate",
    });
    const worker = closeLater(millOn(await open()));
    await worker.work([
      handler(prepare, () => "ready"),
      handler(approve, async ({ input, step }) => `${input} ${(await step.waitFor("go")).value}`),
      handler(parent, ({ step }) => step.invoke(approve, "child")),
    ]);
    const become = async (state: string, ...names: readonly string[]): Promise<void> =>
      until(`they are ${state}`, async () => {
        const views = await Promise.all(names.map((name) => mill.jobs.get(idOf(name))));
        return views.every((view) => view?.state === state);
      });
    await become("suspended", "two", "three");
    expect(await mill.signal(idOf("two"), "go", "late")).toEqual({ kind: "delivered" });
    await become("completed", "one", "two");
    expect(await mill.broadcast({ flow: run.id }, "go", "all")).toEqual({ runs: 1 });
    const result = await run.result({ timeout: hangMs });
    expect(result).toMatchObject({ one: "ready early", two: "ready late", three: "ready all" });

    const above = await mill.enqueue(parent, null);
    const { runs } = await untilSome(() => mill.runs.waiting({ signal: "go" }));
    expect(runs).toHaveLength(1);
    const [child] = runs;
    expect(await mill.signal(child?.id ?? "", "go", "well")).toEqual({ kind: "delivered" });
    expect(await above.result({ timeout: hangMs })).toBe("child well");
  });
});

async function untilSome<Page extends { readonly runs: readonly unknown[] }>(
  read: () => Promise<Page>,
): Promise<Page> {
  let page = await read();
  await until("a run waits", async () => {
    page = await read();
    return page.runs.length > 0;
  });
  return page;
}
