// What the registrations of workers tell: handlers that were told to stop and hold their slots.
import { expect, test } from "vitest";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { handler } from "../../worker/handler.ts";
import { readLiveProcesses, workersOf } from "./live-workers.ts";

const v = useVirtualMill();

test("a handler that ignores its abort is told of by explain and the registration until it ends", async () => {
  const deaf = job<number>("deaf", { timeout: "1s", retry: { attempts: 1 } });
  const gate = Promise.withResolvers<void>();
  await v.run(v.mill.work([handler(deaf, () => gate.promise)], { concurrency: 1, abortGrace: "1s" }));
  const first = await v.run(v.mill.enqueue(deaf, 1));
  const second = await v.run(v.mill.enqueue(deaf, 2));
  const abandoned = async (): Promise<unknown> =>
    (await v.run(readLiveProcesses(v.store))).flatMap(workersOf).map((each) => each.abandoned);
  expect(await abandoned()).toEqual([0]);
  await v.run(first.result().catch(() => undefined));
  await v.advance(100);
  expect(await abandoned()).toEqual([1]);
  const { why } = (await v.run(v.mill.explain(second.id))) ?? {};
  expect(why).toMatch(
    /free slot.* One slot is held by a handler that was told to stop and goes on, on \S+\.$/,
  );
  gate.resolve();
  await v.run(second.result());
  expect(await abandoned()).toEqual([0]);
});
