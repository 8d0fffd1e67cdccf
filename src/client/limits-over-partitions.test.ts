// Limits and queue settings on a store of four partitions: the same promises as on one.
import { expect, test } from "vitest";
import { useVirtualMill } from "../../test/support/virtual/use-virtual-mill.ts";
import { deferred } from "../../test/support/virtual/virtual-mill.ts";
import { job } from "../engine/submit/job-definition.ts";
import { limit } from "../engine/limits/limit-definition.ts";
import { Throttled } from "../worker/control.ts";
import { handler } from "../worker/handler.ts";

const v = useVirtualMill({}, 4);
const slack = limit("slack", { concurrency: 2 });
const send = job<number>("send", { limits: [slack] });

test("a limit holds over all partitions, and an end lets the next start", async () => {
  const ends: (() => void)[] = [];
  const run = (): Promise<void> => {
    const { promise, resolve } = deferred();
    ends.push(resolve);
    return promise;
  };
  await v.run(v.mill.work([handler(send, run)], { concurrency: 8 }));
  await v.run(v.mill.enqueueMany([1, 2, 3, 4].map((n) => send.with(n))));
  for (const n of [5, 6]) await v.run(v.mill.enqueue(send, n));
  await v.advance(100);
  expect(ends).toHaveLength(2);
  for (let more = 1; more <= 4; more++) {
    ends[more - 1]?.();
    await v.advance(100);
    expect(ends).toHaveLength(2 + more);
    expect((await v.run(v.mill.limits.state("slack"))).held).toBe(2);
  }
  for (const end of ends) end();
});

test("a throttle closes the limit for all its jobs", async () => {
  const starts: number[] = [];
  const run = ({ input }: { input: number }): void => {
    starts.push(input);
    if (starts.length === 1) throw new Throttled(slack, { retryAfter: "10s" });
  };
  await v.run(v.mill.work([handler(send, run)], { concurrency: 1 }));
  await v.run(v.mill.enqueue(send, 1));
  await v.advance(100);
  await v.run(v.mill.enqueue(send, 2));
  await v.advance(5000);
  expect(starts).toEqual([1]);
  await v.advance(6000);
  expect(starts).toEqual([1, 1, 2]);
});

test("a queue's concurrency or burst that the partitions cannot share is refused", async () => {
  for (const edit of [{ concurrency: 3 }, { rate: { max: 100, per: "1s", burst: 3 } }] as const)
    await expect(v.run(v.mill.queues.set("email", edit))).rejects.toMatchObject({
      code: "placement-conflict",
    });
  expect(await v.run(v.mill.queues.set("email", { concurrency: 4 }))).toMatchObject({ concurrency: 4 });
});

test("pause, resume, drain and openIntake hold in every partition", async () => {
  const plain = job<number>("plain", { queue: "email" });
  let ran = 0;
  await v.run(v.mill.work([handler(plain, () => void (ran += 1))]));
  await v.run(v.mill.queues.pause("email"));
  const handles = [];
  for (let n = 0; n < 12; n++) handles.push(await v.run(v.mill.enqueue(plain, n)));
  await v.advance(20_000);
  expect(ran).toBe(0);
  expect(await v.run(v.mill.jobs.counts())).toEqual({ email: { ready: 12, held: 12 } });
  await v.run(v.mill.queues.closeIntake("email"));
  for (let n = 0; n < 8; n++)
    await expect(v.run(v.mill.enqueue(plain, n))).rejects.toMatchObject({ code: "intake-closed" });
  await v.run(v.mill.queues.resume("email"));
  await v.run(Promise.all(handles.map((handle) => handle.result())));
  expect(ran).toBe(12);
  await v.run(v.mill.queues.openIntake("email"));
  expect((await v.run(v.mill.enqueue(plain, 1))).created).toBe(true);
});

test("it is said once that the jobs of a limit lie in one partition, and not of a limit that bounds keys only", async () => {
  const lines: unknown[] = [];
  const log = { warn: (message: string, fields: unknown) => void lines.push([message, fields]) };
  const { debug, info, error } = { debug: () => {}, info: () => {}, error: () => {} };
  await v.reopen({ log: { debug, info, error, ...log } }, 4);
  const perTenant = limit("tenant", { perKey: { concurrency: 1 } });
  await v.run(v.mill.limits.define(perTenant));
  expect(lines).toEqual([]);
  for (const n of [1, 2]) await v.run(v.mill.enqueue(send, n));
  expect(lines).toEqual([[expect.stringContaining("one partition"), { limit: "slack", partitions: 4 }]]);
});
