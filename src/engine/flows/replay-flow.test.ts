import { replayKind } from "../../model/flow/requested-change.ts";
import { expect, test } from "vitest";
import { flowsOn, statesOf, step } from "../../../test/support/flow-steps.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { readMillraceOptions } from "../../client/millrace-options.ts";
import type { Doc } from "../../store/records.ts";
import { createServices } from "../services.ts";
import type { Services } from "../services.ts";
import { flow } from "./flow.ts";
import { makeReplayPlan, replayFlow } from "./replay-flow.ts";

const v = useVirtualMill();
const { begin } = flowsOn(v);

function secondEngine(): Services {
  const { settings, log } = readMillraceOptions(v.platform, { log: false });
  return createServices(v.store, v.platform, settings, log);
}

async function requestOf(services: Services, id: string, nodes: readonly string[]): Promise<Doc> {
  const record = await services.reads.add(id);
  const plan = await makeReplayPlan(services, record!, { nodes, withRest: false });
  return { kind: replayKind, id, version: 1, body: JSON.stringify(plan), dueAt: 0, expiresAt: null };
}

test("a replay in a map with a cap that two go through at once lets it end, whoever comes behind its last node", async () => {
  const given = flow("capped");
  given.map("map", step, ["a", "b", "c"], { concurrency: 1 });
  const [run, steps] = await begin(given);
  await v.run(run.result());
  const services = secondEngine();
  for (const nodes of [["map.each"], ["map.0", "map.2"], ["map.each", "map.1"]]) {
    const request = await v.run(requestOf(services, run.id, nodes));
    await v.run(Promise.all([replayFlow(services, request), replayFlow(services, request)]));
    await v.advance(1000);
    await v.run(replayFlow(services, request));
    await v.run(run.result());
    expect((await v.run(run.view())).state).toBe("completed");
  }
  expect(steps.ran).toEqual(["a", "b", "c", "a", "c", "b"]);
  expect(steps.most).toBe(1);
});

test("a replay that is gone through once more leaves a race alone that it has decided anew", async () => {
  const given = flow("raced");
  const race = given.race("race", [step.with("quick"), step.with("hold")], { cancelRest: false });
  given.add("last", step, "last", { after: [race, given.add("slow", step, "hold")] });
  const [run, steps] = await begin(given);
  await v.advance(1000);
  const services = secondEngine();
  const request = await v.run(requestOf(services, run.id, ["race.0"]));
  for (const _ of ["by who gave it", "by who found it left"]) {
    await v.run(replayFlow(services, request));
    await v.advance(1000);
    expect(await v.run(statesOf(run))).toMatchObject({ race: "completed", slow: "running", last: "blocked" });
  }
  steps.letGo();
  expect(await v.run(run.result())).toMatchObject({ last: "last" });
  expect(steps.ran.filter((input) => input === "quick")).toHaveLength(2);
});
