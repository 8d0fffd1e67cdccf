// A handler that ignores its abort and holds its slot, as registrations show it.
import { expect, test } from "vitest";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { handler } from "../../worker/handler.ts";
import { readLiveProcesses, workersOf } from "./live-workers.ts";

const v = useVirtualMill();

test("explain and the registration show a handler that ignores its abort until it ends", async () => {
  const stubborn = job<number>("stubborn", { timeout: "1s", retry: { attempts: 1 } });
  const gate = Promise.withResolvers<void>();
  await v.run(v.mill.work([handler(stubborn, () => gate.promise)], { concurrency: 1, abortGrace: "1s" }));
  const first = await v.run(v.mill.enqueue(stubborn, 1));
  const second = await v.run(v.mill.enqueue(stubborn, 2));
  const abandoned = async (): Promise<unknown> =>
    (await v.run(readLiveProcesses(v.store))).flatMap(workersOf).map((each) => each.abandoned);
  expect(await abandoned()).toEqual([0]);
  await v.run(first.result().catch(() => undefined));
  await v.advance(100);
  expect(await abandoned()).toEqual([1]);
  const { why } = (await v.run(v.mill.explain(second.id))) ?? {};
  expect(why).toMatch(/free slot.* One slot is held by a handler that ignores its abort, on \S+\.$/);
  gate.resolve();
  await v.run(second.result());
  expect(await abandoned()).toEqual([0]);
});
