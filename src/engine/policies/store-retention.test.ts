/** Several processes on one store whose options keep jobs for different times. */
import type { Duration } from "../../model/duration.ts";
import { afterEach, expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import type { Millrace } from "../../client/millrace.ts";
import type { MillraceOptions } from "../../client/millrace-options.ts";
import { handler } from "../../worker/handler.ts";
import { job } from "../submit/job-definition.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const plain = job<null, number>("plain");
const v = useVirtualMill({ duties: false });
const others: Millrace[] = [];
afterEach(async () => {
  for (const mill of others.splice(0)) await v.run(mill.close());
});

/** Another process on the same store, which stays open when the process closes. */
async function open(options: MillraceOptions): Promise<Millrace> {
  const mill = millOn({ ...v.store, close: async () => undefined }, options, v.platform);
  others.push(mill);
  await v.run(mill.retention.get());
  return mill;
}

async function complete(mill: Millrace): Promise<void> {
  const worker = await v.run(mill.work([handler(plain, async () => 1)]));
  await v.run(mill.enqueue(plain, null));
  await v.advance(1000);
  await v.run(worker.stop());
}

const kept = async (): Promise<number> => (await v.run(v.mill.jobs.counts()))["default"]?.completed ?? 0;

test("a process with a shorter setting does not prune what another has promised", async () => {
  await open({ retention: { completed: "30d" }, duties: false });
  const hasty = await open({ retention: { completed: "1h" } });
  await complete(v.mill);
  await v.advance(20 * dayMs);
  await v.run(hasty.duties.run("retention"));
  await v.run((await open({})).duties.run("retention"));
  expect(await kept()).toBe(1);
  await v.advance(11 * dayMs);
  await v.run(hasty.duties.run("retention"));
  expect(await kept()).toBe(0);
});

test("of the counts that processes declare the greatest is kept, and a call makes it smaller", async () => {
  await open({ retention: { completed: { age: "1d", count: 5 }, failed: { count: 9 } }, duties: false });
  await open({ retention: { completed: { count: 3 }, failed: { count: null } }, duties: false });
  expect(await v.run(v.mill.retention.get())).toMatchObject({
    ...{ completedMs: dayMs, completedCount: 5, failedMs: 30 * dayMs, failedCount: null },
  });
  for (let index = 0; index < 6; index++) await complete(v.mill);
  const asked = await open({});
  await v.run(asked.duties.run("retention"));
  expect(await kept()).toBe(5);
  expect(await v.run(v.mill.retention.set({ completed: { count: 2 } }))).toMatchObject({
    ...{ completedMs: dayMs, completedCount: 2 },
  });
  await v.run(asked.duties.run("retention"));
  expect(await kept()).toBe(2);
});

test("a job cannot have a count, only its queue and the store", async () => {
  const refused = v.mill.enqueue(plain, null, {
    retention: { completed: { count: 3 } as unknown as Duration },
  });
  await expect(v.run(refused)).rejects.toThrow("a job has no count; give it to its queue or to the store");
});

test("a process without options, such as the command line, prunes by what the store keeps", async () => {
  await open({ retention: { completed: "1h" }, feedRetention: "2h", duties: false });
  expect(await v.run(v.mill.retention.get())).toEqual({
    ...{ completedMs: hourMs, failedMs: 30 * dayMs, otherMs: 7 * dayMs },
    feedMs: 2 * hourMs,
  });
  await complete(v.mill);
  await v.advance(2 * hourMs);
  const asked = await open({});
  await v.run(asked.duties.run("retention"));
  expect(await kept()).toBe(0);
});

test("only an explicit call makes a time shorter, and it says nothing about the others", async () => {
  await open({ retention: { completed: "30d", failed: "60d" } });
  await v.run(v.mill.retention.set({ completed: "1h" }));
  expect(await v.run(v.mill.retention.get())).toMatchObject({ completedMs: hourMs, failedMs: 60 * dayMs });
  await open({ retention: { completed: "2h" } });
  expect(await v.run(v.mill.retention.get())).toMatchObject({ completedMs: 2 * hourMs });
  await expect(v.mill.retention.set({ finished: 1 } as never)).rejects.toMatchObject({
    code: "invalid-option",
  });
});

test("processes that open in the same moment agree on the longest time of each outcome", async () => {
  const emitted = [1, 9, 4, 7, 2].map((hours) => ({
    completed: `${hours}h` as const,
    failed: `${10 - hours}h` as const,
  }));
  await Promise.all(emitted.map((retention) => open({ retention })));
  expect(await v.run(v.mill.retention.get())).toMatchObject({
    completedMs: 9 * hourMs,
    failedMs: 9 * hourMs,
  });
});

test("a worker whose options keep nothing keeps what another process has promised, also where it learns of it late", async () => {
  const nothing = await open({ retention: { completed: 0 }, duties: false });
  await complete(nothing);
  expect(await kept()).toBe(0);
  await v.run(nothing.work([handler(plain, async () => 1)]));
  await open({ retention: { completed: "1h" }, duties: false });
  await v.advance(25_000);
  await v.run(nothing.enqueue(plain, null));
  await v.advance(1000);
  expect(await kept()).toBe(1);
});

test("while the document cannot be read nothing that depends on it is pruned; set() replaces it", async () => {
  const mill = await open({});
  await complete(v.mill);
  await v.run(v.store.putDocs([{ kind: "settings", id: "retention", body: "{", guard: "any" }]));
  await v.advance(100 * dayMs);
  const pass = await v.run(mill.duties.run("retention"));
  expect(pass.errors).toBe(1);
  expect(Object.keys(pass.outcomes)).toEqual(["kept", "documents"]);
  expect(await kept()).toBe(1);
  await v.run(mill.retention.set({ completed: "1d" }));
  await v.run(mill.duties.run("retention"));
  expect(await kept()).toBe(0);
});
