import { expect, test, vi } from "vitest";
import { flowsOn, step } from "../../../test/support/flow-steps.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import { deferredKind } from "../../store/rules/flow/arrive.ts";
import { flow } from "./flow.ts";

const v = useVirtualMill();
const { begin } = flowsOn(v);

test("the deferred work of a wide node goes behind one look, although each of its steps leaves it anew", async () => {
  const wide = flow("wide");
  const first = wide.add("first", step, "a");
  const width = 2 * storeLimits.edgesPerStepMax + storeLimits.edgesAtOnceMax;
  for (let at = 0; at < width; at++) wide.add(`n${at}`, step, "b", { after: first });
  const putDocs = vi.spyOn(v.store, "putDocs");
  const [run, steps] = await begin(wide);
  await v.run(run.result());
  await v.advance(2000);
  expect(steps.ran).toHaveLength(width + 1);
  const answers = (await Promise.all(putDocs.mock.results.map(({ value }) => value))).flat();
  const puts = putDocs.mock.calls
    .flatMap(([docs]) => docs)
    .map(({ kind, id }, at) => ({ kind, id, answer: answers[at]! }));
  const ofDeferred = puts.filter(({ kind }) => kind === deferredKind);
  expect(ofDeferred.map(({ id, answer }) => [id.slice(run.id.length), answer.kind])).toEqual([
    [".first", "ok"],
    ["", "ok"],
  ]);
  const left = await v.store.readDocs({ kind: deferredKind, prefix: "", after: null, max: 10 });
  expect(left.docs).toEqual([]);
});
