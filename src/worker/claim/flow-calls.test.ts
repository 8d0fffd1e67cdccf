/** What a chain of a flow asks of the store: a call must not be made where another one can carry what it would tell. */
import { expect, test } from "vitest";
import { runUntil } from "../../../test/support/virtual/virtual-mill.ts";
import { millOn } from "../../../test/support/mill-on.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { flow } from "../../engine/flows/flow.ts";
import type { Store } from "../../store/store.ts";
import { openSqliteStore } from "../../stores/sqlite/sqlite-store.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import { handler } from "../handler.ts";

const step = job<number, void>("step");
const nodes = 5;
const counted = [
  "submit",
  "claim",
  "settleIfLeased",
  "changeIf",
  "promoteDue",
  "readDue",
  "readDueDocs",
] as const;

test("a chain claims each node with the settle of the one before, and its end asks for no clock of jobs", async () => {
  const platform = createVirtualPlatform();
  const store = await openSqliteStore({ path: ":memory:", platform });
  const calls: string[] = [];
  const recorded: Store = { ...store };
  for (const name of counted)
    Object.assign(recorded, {
      [name]: (...given: never[]) => (
        calls.push(name),
        (store[name] as (...all: never[]) => unknown)(...given)
      ),
    });
  const mill = millOn(recorded, { metrics: false }, platform);
  const run = <Value>(promise: Promise<Value>): Promise<Value> => runUntil(platform, promise);
  await run(mill.work([handler(step, async () => {})]));
  await platform.time.advance(5_000_000);
  calls.length = 0;

  const chain = flow("chain");
  const jobs = Array.from({ length: nodes }, (_, at) => step.with(at));
  chain.chain("step", jobs as [(typeof jobs)[0], ...typeof jobs]);
  await run((await run(mill.submit(chain))).result());

  const times = Object.fromEntries(
    [...Map.groupBy(calls, (name) => name)].map(([name, all]) => [name, all.length]),
  );
  expect(times).toEqual({ submit: 1, claim: 1 + nodes, settleIfLeased: nodes, readDueDocs: 1, changeIf: 1 });
  await run(mill.close());
});
