// Flows on the command line, on a real file: listed, drawn, cancelled, replayed and deleted.
import { expect, test } from "vitest";
import { flow, Millrace } from "../../src/index.ts";
import { Steps, step } from "../support/flow-steps.ts";
import { aStoreUrl, say, sayJson } from "./run-millrace.ts";

const args = (text: string, store: string): string[] => [...text.split(" "), "--store", store];

test("a flow that failed is listed, drawn, replayed and deleted", async () => {
  const store = aStoreUrl();
  await using mill = await Millrace.open(store, { log: false });
  const steps = new Steps();
  await steps.work(mill);
  const given = flow("report");
  const first = given.add("first", step, "fail");
  given.add("second", step, "2", { after: first });
  given.add("beside", step, "b");
  const run = await mill.submit(given, { tags: ["mine"] });
  await run.result().catch(() => undefined);

  const listed = await say(args("flows --state failed --tag mine", store));
  expect(listed.out).toMatch(
    /^ID +NAME +STATE +ENDED +CREATED\n\S{21} +report +failed +3\/3 .* 1 failed, 1 skipped\n$/,
  );
  expect(await sayJson(args("flows --name nobody", store))).toEqual({ flows: [], cursor: null });
  expect((await say(args("flows --state running", store))).out).toBe("no flows\n");

  const { out } = await say(args(`show ${run.id}`, store));
  expect(out).toContain("state     failed (node-failed)\njobs      3: 1 completed, 1 failed, 1 skipped\n");
  expect(out).toMatch(
    /├─ ✗ first +failed +Error: fail does not work\n│ {2}- second +skipped +unreachable\n└─ ✓ beside +completed/,
  );
  expect(await sayJson(args(`show ${run.id}`, store))).toMatchObject({
    flow: { id: run.id, state: "failed" },
    nodes: [{ name: "first" }, { name: "second" }, { name: "beside" }],
  });
  expect((await say(args(`show ${run.id}.first`, store))).out).toContain(
    `flow      ${run.id}, kept with it; node first\n`,
  );

  expect((await say(args(`delete ${run.id}.first`, store))).err).toMatch(/^millrace: flow-member: /);
  expect((await say(args("purge --state completed", store))).out).toBe(
    "0 deleted, 0 run and stay, 1 stay with their flows\n",
  );
  expect((await say(args(`retry ${run.id} --input 1`, store))).err).toMatch(/^millrace: flow-member: /);
  steps.failing.clear();
  expect((await say(args(`retry ${run.id} --node first`, store))).out).toBe(
    "1 node will run again, 1 wait for them\n",
  );
  expect(await run.result()).toEqual({ second: "2", beside: "b" });
  expect((await say(args(`delete ${run.id}`, store))).out).toBe(`${run.id} deleted\n`);
  expect((await say(args(`show ${run.id}`, store))).err).toMatch(/^millrace: job-not-found: /);
});

test("a flow that runs is cancelled, and its events are shown by tail", async () => {
  const store = aStoreUrl();
  await using mill = await Millrace.open(store, { log: false });
  const steps = new Steps();
  await steps.work(mill);
  const given = flow("long");
  given.add("next", step, "n", { after: given.add("hold", step, "hold") });
  const run = await mill.submit(given);
  expect((await say(args(`delete ${run.id}`, store))).err).toMatch(/^millrace: job-changed: /);
  expect((await say(args(`explain ${run.id}.next`, store))).out).toMatch(
    /It waits for the success of "hold"/,
  );
  expect((await say(args(`cancel ${run.id} --pending-only --why enough`, store))).out).toMatch(
    / was asked to stop\n$/,
  );
  steps.letGo();
  await run.result().catch(() => undefined);
  const { out } = await say(
    args(`tail --from start --flow ${run.id} --kinds flow-cancelled --limit 1`, store),
  );
  expect(out).toMatch(new RegExp(`flow-cancelled  long ${run.id}  .*"reason":"enough"`));
  expect((await say(args("flows --state wrong", store))).err).toMatch(/^millrace: invalid-option: /);
});
