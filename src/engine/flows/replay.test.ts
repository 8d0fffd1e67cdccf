import { expect, test } from "vitest";
import { flowsOn, statesOf, step } from "../../../test/support/flow-steps.ts";
import { useVirtualMill } from "../../../test/support/use-virtual-mill.ts";
import { readMillraceOptions } from "../../client/millrace-options.ts";
import { Engine } from "../engine.ts";
import { flow } from "./flow.ts";
import { makeReplayPlan, replayFlow, replayKind } from "./replay.ts";

const v = useVirtualMill();
const { begin } = flowsOn(v);

test("a replay that is gone through once more leaves a race alone that it has decided anew", async () => {
  const given = flow("raced");
  const race = given.race("race", [step.with("quick"), step.with("hold")], { cancelRest: false });
  given.add("last", step, "last", { after: [race, given.add("slow", step, "hold")] });
  const [run, steps] = await begin(given);
  await v.advance(1000);
  const { settings, log } = readMillraceOptions(v.platform, { log: false });
  const engine = new Engine(v.store, v.platform, settings, log);
  const record = await v.run(engine.reads.add(run.id));
  const plan = await v.run(makeReplayPlan(engine, record!, { nodes: ["race.0"], withRest: false }));
  const body = JSON.stringify(plan);
  const order = { kind: replayKind, id: run.id, version: 1, body, dueAt: 0, expiresAt: null };
  for (const _ of ["by who gave it", "by who found it left"]) {
    await v.run(replayFlow(engine, order));
    await v.advance(1000);
    expect(await v.run(statesOf(run))).toMatchObject({ race: "completed", slow: "running", last: "blocked" });
  }
  steps.letGo();
  expect(await v.run(run.result())).toMatchObject({ last: "last" });
  expect(steps.ran.filter((input) => input === "quick")).toHaveLength(2);
});
