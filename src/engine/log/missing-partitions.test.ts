/** A whole Millrace on four partitions of which one fails or falls silent. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { failingPart } from "../../../test/support/stores/failing-part.ts";
import type { FailingPart } from "../../../test/support/stores/failing-part.ts";
import { millOn } from "../../../test/support/mill-on.ts";
import { runUntil } from "../../../test/support/virtual/virtual-mill.ts";
import type { Millrace } from "../../client/millrace.ts";
import { createPlacement } from "../../model/routing/placement.ts";
import { partitionedStore } from "../../store/partitioned/partitioned-store.ts";
import type { Store } from "../../store/store.ts";
import { openSqliteStore } from "../../stores/sqlite/sqlite-store.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import type { VirtualPlatform } from "../../testing/virtual-platform.ts";
import { handler } from "../../worker/handler.ts";
import { job } from "../submit/job-definition.ts";

const partitions = 4;
const placement = createPlacement(partitions);
const ofId = (id: string): number => placement.ofId(id);
const broken = new Error("WRONGTYPE Operation against a key holding the wrong kind of value");
const tick = job<{ readonly dueAt: number }>("tick");
const long = job<null, null>("long");

let platform: VirtualPlatform;
let parts: FailingPart[];
let sick: FailingPart;
let mill: Millrace;
let lines: string[];
let lateMs: number[];
beforeEach(async () => {
  platform = createVirtualPlatform();
  const open = (): Promise<Store> => openSqliteStore({ path: ":memory:", platform, executor: "inline" });
  parts = (await Promise.all(Array.from({ length: partitions }, open))).map(failingPart);
  sick = parts[1] as FailingPart;
  lines = [];
  lateMs = [];
  const note =
    (level: string) =>
    (message: string, { partition }: { readonly partition?: unknown } = {}): void =>
      void lines.push(`${level} ${message}${partition === undefined ? "" : ` ${String(partition)}`}`);
  const log = { debug: () => undefined, info: note("info"), warn: note("warn"), error: note("error") };
  mill = millOn(partitionedStore(parts, { platform }), { log }, platform);
});
afterEach(async () => {
  sick.fails = null;
  sick.speak();
  await run(mill.close());
});

const run = <Value>(promise: Promise<Value>): Promise<Value> => runUntil(platform, promise);
const passMs = (ms: number): Promise<void> => platform.time.advance(ms * 1000);
const work = (): Promise<unknown> =>
  run(
    mill.work(
      [
        handler(tick, async ({ input }) => void lateMs.push(platform.time.now - input.dueAt)),
        handler(long, async ({ signal }) => {
          await new Promise((resolve) => platform.setTimer(120_000, () => resolve(null)));
          if (signal.aborted) throw signal.reason;
          return null;
        }),
      ],
      { concurrency: 20 },
    ),
  );

/** One job in a healthy partition, due after the delay. */
async function enqueueElsewhere(delay: number): Promise<void> {
  for (;;) {
    const id = `job-${platform.random()}`;
    if (ofId(id) === 1) continue;
    await run(mill.enqueue(tick, { dueAt: platform.time.now + delay }, { id, delay }));
    return;
  }
}

describe("one partition of four", () => {
  test.each(["is silent", "fails", "fails to promote", "fails to claim"])(
    "%s for a minute: jobs of the others start as if nothing were",
    async (trouble) => {
      await work();
      await passMs(20_000);
      if (trouble === "is silent") sick.fallSilent();
      else {
        sick.fails = broken;
        sick.failing =
          trouble === "fails"
            ? []
            : trouble === "fails to promote"
              ? ["promoteDue"]
              : ["claim", "extendIfLeased"];
      }
      for (let n = 0; n < 120; n++) {
        await enqueueElsewhere(n % 2 === 0 ? 0 : 1500);
        await passMs(500);
      }
      await passMs(5000);
      expect(lateMs).toHaveLength(120);
      lateMs.sort((one, other) => one - other);
      expect(lateMs[60]).toBeLessThanOrEqual(20);
      expect(lateMs[118]).toBeLessThanOrEqual(600);
    },
  );

  test("is silent for two minutes: no handler of the others loses its lease", async () => {
    await work();
    await passMs(20_000);
    const ids: string[] = [];
    for (let n = 0; n < 8; n++) {
      ids.push((await run(mill.enqueue(long, null))).id);
      await passMs(1);
    }
    await passMs(1000);
    sick.fallSilent();
    await passMs(125_000);
    const elsewhere = ids.filter((id) => ofId(id) !== 1);
    expect(elsewhere.length).toBeGreaterThan(2);
    for (const id of elsewhere) expect((await run(mill.jobs.get(id)))?.state).toBe("completed");
  });

  test("begins to fail and is back: the log says so once each, and no duty is called failed", async () => {
    await work();
    await passMs(20_000);
    sick.fails = broken;
    await passMs(300_000);
    const ofPartitions = (): readonly string[] => lines.filter((line) => line.includes("partition"));
    expect(ofPartitions()).toEqual([
      "warn a partition of the store fails and is passed over until it answers 1",
    ]);
    sick.fails = null;
    await passMs(70_000);
    expect(ofPartitions().slice(1)).toEqual(["info a partition of the store is back 1"]);
    expect(lines.filter((line) => line.includes("failed"))).toEqual([]);
  });

  test("fails: lists, counts, explanations and duties answer for the rest and say so", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 12; n++) {
      ids.push((await run(mill.enqueue(tick, { dueAt: 0 }))).id);
      await passMs(1);
    }
    const elsewhere = ids.filter((id) => ofId(id) !== 1);
    expect(elsewhere.length).toBeLessThan(12);
    sick.fails = broken;
    const { jobs, missing } = await run(mill.jobs.list());
    expect(jobs.map(({ id }) => id).sort()).toEqual(elsewhere.toSorted());
    expect(missing).toEqual([1]);
    expect(await run(mill.jobs.counts())).toEqual({ default: { ready: elsewhere.length } });
    expect((await run(mill.describe())).warnings.join()).toMatch(/Partition 1 .*WRONGTYPE/);
    expect((await run(mill.explain(elsewhere[0] as string)))?.why).toMatch(/Partition 1 of the store/);
    for (const duty of mill.duties.names)
      expect(await run(mill.duties.run(duty)), duty).toMatchObject({ errors: 1, missing: [1] });
    await expect(run(mill.jobs.cancel({ queue: "default" }))).rejects.toMatchObject({
      code: "store-unavailable",
    });
    for (const id of elsewhere) expect((await run(mill.jobs.get(id)))?.state).toBe("cancelled");
  });
});
