// Cancels by filter and across processes that receive no hints, on virtual time.
import { expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { deferred } from "../../../test/support/virtual/virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { MillraceError } from "../../model/error.ts";
import { handler } from "../../worker/handler.ts";
import type { Answers, CancelAnswer } from "./cancel-jobs.ts";

const v = useVirtualMill();
const task = job<number>("task");

test("a cancel of many jobs reports its progress page by page", async () => {
  await v.run(v.mill.enqueueMany(Array.from({ length: 1200 }, (_, at) => task.with(at, { tags: ["t"] }))));
  const reported: Answers<CancelAnswer>[] = [];
  const answers = await v.run(
    v.mill.jobs.cancel({ tag: "t" }, { onProgress: (soFar) => reported.push(soFar) }),
  );
  expect(answers).toEqual({ cancelled: 1200, signalled: 0, finished: 0, "not-found": 0 });
  expect(reported.map(({ cancelled }) => cancelled)).toEqual([500, 1000, 1200]);
});

test.each([
  [0, "did-not-happen"],
  [1, "unknown"],
])(
  "a cancel of many that fails behind %i pages says %s, and the rest can be cancelled",
  async (pages, outcome) => {
    await v.run(v.mill.enqueueMany(Array.from({ length: 600 }, (_, at) => task.with(at, { tags: ["t"] }))));
    let left = pages;
    const away = new MillraceError("store-unavailable", "away");
    const failing = millOn(
      { ...v.store, findJobs: (request) => (left-- > 0 ? v.store.findJobs(request) : Promise.reject(away)) },
      {},
      v.platform,
    );
    const cancelling = v.run(failing.jobs.cancel({ tag: "t" }));
    await expect(cancelling).rejects.toMatchObject({ code: "store-unavailable", outcome });
    const { cancelled } = await v.run(v.mill.jobs.cancel({ tag: "t" }));
    expect(cancelled).toBe(600 - 500 * pages);
    await v.run(failing.close());
  },
);

test("an onProgress that is not a function is refused before anything is cancelled", async () => {
  const { id } = await v.run(v.mill.enqueue(task, 1));
  const wrong = { onProgress: "loudly" as never };
  await expect(v.run(v.mill.jobs.cancel(id, wrong))).rejects.toMatchObject({ code: "invalid-option" });
  expect(await v.run(v.mill.jobs.get(id))).toMatchObject({ state: "ready" });
});

test("cancels between two process heartbeats all arrive without a hint", async () => {
  const notListening = millOn({ ...v.store, watch: () => () => undefined }, {}, v.platform);
  const aborted: number[] = [];
  const endless = handler(task, async ({ input, signal }) => {
    await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    aborted.push(input);
    signal.throwIfAborted();
  });
  await v.run(notListening.work([endless], { concurrency: 5 }));
  const handles = [];
  for (let at = 0; at < 5; at++) handles.push(await v.run(v.mill.enqueue(task, at)));
  await v.advance(2500);
  for (const { id } of handles.slice(0, 4)) expect(await v.run(v.mill.jobs.cancel(id))).toBe("signalled");
  await v.advance(1200);
  expect(aborted.toSorted((one, other) => one - other)).toEqual([0, 1, 2, 3]);
  await v.run(v.mill.jobs.cancel({ name: "task" }));
  await v.advance(1200);
  expect(aborted).toHaveLength(5);
  await v.run(notListening.close());
});

test("a job that completes before its cancel stays completed", async () => {
  const gate = deferred();
  await v.run(v.mill.work([handler(task, () => gate.promise)]));
  const handle = await v.run(v.mill.enqueue(task, 1));
  await v.advance(10);
  expect(await v.run(v.mill.jobs.cancel(handle.id))).toBe("signalled");
  gate.resolve();
  await v.run(handle.result());
  expect(await v.run(v.mill.jobs.cancel(handle.id))).toBe("finished");
  expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "completed" });
});

test("a job that runs again after its cancel is not cancelled by the change number of its last attempt", async () => {
  const once = job("once", { retry: { attempts: 1 } });
  let gate = deferred();
  const held = handler(once, async ({ signal }) => {
    signal.addEventListener("abort", () => gate.reject(signal.reason as Error));
    await gate.promise;
  });
  await v.run(v.mill.work([held]));
  const handle = await v.run(v.mill.enqueue(once, null));
  await v.advance(10);
  expect(await v.run(v.mill.jobs.cancel(handle.id))).toBe("signalled");
  await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-cancelled" });
  gate = deferred();
  expect(await v.run(v.mill.jobs.retry(handle.id))).toBe("retried");
  await v.advance(5000);
  expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "running" });
  gate.resolve();
  await v.run(handle.result());
});
