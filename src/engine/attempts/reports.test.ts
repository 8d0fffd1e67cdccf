import { beforeEach, expect, test } from "vitest";
import { deferred } from "../../../test/support/virtual/virtual-mill.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import type { LeasedWrite } from "../../store/operations.ts";
import { handler } from "../../worker/handler.ts";
import { job } from "../submit/job-definition.ts";

const v = useVirtualMill();
let writes: LeasedWrite[];
let calls: number;
beforeEach(() => {
  writes = [];
  calls = 0;
  const record = v.store.recordIfLeased.bind(v.store);
  v.store.recordIfLeased = (given) => {
    calls += 1;
    writes.push(...given);
    return record(given);
  };
});

const plain = job("plain");

test("a thousand reports of one flush are one write, with the last progress and every line in order", async () => {
  const run = handler(plain, async ({ progress, log }) => {
    for (let step = 1; step <= 1000; step++) {
      progress(step / 1000);
      if (step % 100 === 0) log.info(`step ${step}`);
    }
  });
  await v.run(v.mill.work([run]));
  const handle = await v.run(v.mill.enqueue(plain, {}));
  await v.run(handle.result());
  expect([calls, writes.length]).toEqual([1, 1]);
  expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ progress: { value: 1 } });
  const lines = await v.run(v.mill.jobs.logs(handle.id));
  expect(lines.map(({ message }) => message)).toEqual(
    Array.from({ length: 10 }, (_, index) => `step ${(index + 1) * 100}`),
  );
});

test("a report during a write joins the next write, never the one in flight", async () => {
  const release = deferred();
  const record = v.store.recordIfLeased.bind(v.store);
  v.store.recordIfLeased = async (given) => {
    const answer = await record(given);
    if (calls === 1) await release.promise;
    return answer;
  };
  const run = handler(plain, async ({ progress, log }) => {
    log.info("first");
    await new Promise<void>((resolve) => void v.platform.setTimer(5, resolve));
    for (const value of [0.1, 0.2, 0.3]) progress(value);
    log.info("second");
    void v.platform.setTimer(5, release.resolve);
  });
  await v.run(v.mill.work([run]));
  const handle = await v.run(v.mill.enqueue(plain, {}));
  await v.run(handle.result());
  expect(calls).toBe(2);
  expect(writes.map(({ logs }) => logs?.length)).toEqual([1, 1]);
  expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ progress: { value: 0.3 } });
});

test("jobs that report at the same time share a call but not a write", async () => {
  await v.run(v.mill.work([handler(plain, async ({ progress }) => (progress(0.5), progress(1)))]));
  const handles = await v.run(v.mill.enqueueMany([1, 2, 3].map((n) => plain.with({ n }))));
  await Promise.all(handles.map((handle) => v.run(handle.result())));
  expect(writes).toHaveLength(3);
  expect(new Set(writes.map(({ id }) => id)).size).toBe(3);
});
