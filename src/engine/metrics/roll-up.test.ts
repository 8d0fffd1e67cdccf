// The roll-up counts every part exactly once, wherever its process is killed and whoever goes on.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openVirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import type { VirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import { MetricTable } from "../../model/metrics/metric-table.ts";
import type { Store } from "../../store/store.ts";
import { addUpTotals, readAllTotals } from "./add-up-totals.ts";
import { metricKind, minuteMs, partPut } from "./metric-docs.ts";
import { rollUpMinutes } from "./roll-up.ts";

const now = 1000 * minuteMs;
const later = now + 60 * minuteMs;
/** Two processes, with two parts each in two minutes: 8 parts of one job. */
const names = ["one-1", "one-2", "two-1", "two-2"];
const parts = [900, 901].flatMap((minute) => names.map((part) => partPut(minute, part, partTable())));

function partTable(): ReturnType<MetricTable["pack"]> {
  const table = new MetricTable();
  const series = table.of("mail", "send");
  series.enqueued = 1;
  series.outcomes[0] = 1;
  for (const sketch of [series.wait, series.run, series.total]) sketch.add(5000);
  return table.pack();
}

let v: VirtualMill;
let store: Store;
beforeEach(async () => {
  v = await openVirtualMill();
  store = v.store;
  await store.putDocs(parts);
});
afterEach(() => v.close());

const readAll = (): ReturnType<VirtualMill["mill"]["metrics"]["read"]> =>
  v.run(v.mill.metrics.read({ from: 0, to: later, step: "1h" }));
const enqueuedInAll = async (): Promise<number> => (await readAll()).all.enqueued;
const enqueuedInTotals = async (): Promise<number> =>
  [...(await readAllTotals(store)).series].reduce((sum, { enqueued }) => sum + enqueued, 0);
const ids = async (prefix: string): Promise<readonly string[]> =>
  (await store.readDocs({ kind: metricKind, prefix, after: null, max: 500 })).docs.map(({ id }) => id);

test("the parts of a minute become one document, and nothing that is answered changes", async () => {
  const before = await readAll();
  expect(before.all).toMatchObject({ enqueued: 8, attempts: 8, run: { count: 8, maxMs: 5 } });
  expect(await rollUpMinutes(store, now, 1000)).toEqual({ parts: 8, hasMore: false, hasFresh: false });
  expect(await ids("part/")).toEqual([]);
  expect(await ids("minute/")).toHaveLength(2);
  expect((await readAll()).series).toEqual(before.series);
});

test("a minute that has only just ended is left alone", async () => {
  const fresh = 902 * minuteMs + 10_000;
  expect(await rollUpMinutes(store, fresh, 1000)).toEqual({ parts: 4, hasMore: false, hasFresh: true });
  expect(await ids("part/")).toHaveLength(4);
});

test("more parts than a pass may take are taken by the next one, each minute whole", async () => {
  expect(await rollUpMinutes(store, now, 2)).toEqual({ parts: 4, hasMore: true, hasFresh: false });
  expect(await rollUpMinutes(store, now, 5)).toEqual({ parts: 4, hasMore: false, hasFresh: false });
  expect(await enqueuedInAll()).toBe(8);
});

test("only the minutes that are asked for are answered", async () => {
  const only = async (minute: number): Promise<number> => {
    const range = { from: minute * minuteMs, to: (minute + 1) * minuteMs };
    return (await v.run(v.mill.metrics.read(range))).all.enqueued;
  };
  const counts = async (): Promise<number[]> => Promise.all([899, 900, 901, 902].map(only));
  expect(await counts()).toEqual([0, 4, 4, 0]);
  await rollUpMinutes(store, now, 1000);
  expect(await counts()).toEqual([0, 4, 4, 0]);
});

test("a part that comes late is added to its minute, and one that comes again is not", async () => {
  await rollUpMinutes(store, now, 1000);
  await store.putDocs([partPut(900, "three-1", partTable()), partPut(900, "one-1", partTable())]);
  expect(await enqueuedInAll()).toBe(9);
  expect(await rollUpMinutes(store, now, 1000)).toMatchObject({ parts: 1 });
  expect(await ids("part/")).toEqual([]);
  expect(await enqueuedInAll()).toBe(9);
});

test("minutes are added to the totals once, and totals and newer minutes make up all", async () => {
  await rollUpMinutes(store, now, 1000);
  expect(await enqueuedInTotals()).toBe(8);
  expect(await addUpTotals(store, 905 * minuteMs, 1000)).toEqual({ minutes: 0, hasMore: false });
  expect(await addUpTotals(store, now, 1)).toEqual({ minutes: 1, hasMore: true });
  expect(await enqueuedInTotals()).toBe(8);
  expect(await addUpTotals(store, now, 1000)).toEqual({ minutes: 1, hasMore: false });
  expect(await addUpTotals(store, now, 1000)).toEqual({ minutes: 0, hasMore: false });
  await store.putDocs([partPut(950, "one-9", partTable())]);
  expect(await enqueuedInTotals()).toBe(9);
});

test("damaged documents are passed over, and the rest is answered and rolled up", async () => {
  const damaged = { kind: metricKind, guard: "any" } as const;
  await store.putDocs([
    { ...damaged, id: "part/0000000900/bad-1", body: "{" },
    { ...damaged, id: "part/0000000900/bad-2", body: '{"version":1,"series":[["a","b","!"]],"calls":[]}' },
    { ...damaged, id: "totals", body: '{"upTo":5,"totals":{"version":7}}' },
  ]);
  expect(await enqueuedInAll()).toBe(8);
  await rollUpMinutes(store, now, 1000);
  expect(await ids("part/")).toEqual([]);
  expect(await enqueuedInAll()).toBe(8);
  await addUpTotals(store, now, 1000);
  expect(await enqueuedInTotals()).toBe(8);
});

describe("a process that is killed at any of its writes", () => {
  /** A store for one process, which dies at its nth write: before it, or behind it with the reply on its way. */
  function dying(writes: number, isBehind: boolean): Pick<Store, "readDocs" | "putDocs"> {
    let left = writes;
    return {
      readDocs: (request) => store.readDocs(request),
      putDocs: async (puts) => {
        left -= 1;
        if (left >= 0) return store.putDocs(puts);
        if (isBehind) await store.putDocs(puts);
        throw new Error("killed");
      },
    };
  }

  const deaths = [0, 1, 2, 3, 4].flatMap((writes) => [
    { writes, when: "before", isBehind: false },
    { writes, when: "behind", isBehind: true },
  ]);
  test.each(deaths)("$when the write after $writes leaves every part counted once", async (death) => {
    const killed = dying(death.writes, death.isBehind);
    const work = async (on: typeof killed): Promise<void> => {
      await rollUpMinutes(on, now, 1000);
      await addUpTotals(on, now, 1000);
    };
    await expect(work(killed)).rejects.toThrow("killed");
    expect([await enqueuedInAll(), await enqueuedInTotals()]).toEqual([8, 8]);
    await work(store);
    expect([await enqueuedInAll(), await enqueuedInTotals()]).toEqual([8, 8]);
    expect(await ids("part/")).toEqual([]);
  });

  test("two processes that roll up at once count every part once", async () => {
    await Promise.all([rollUpMinutes(store, now, 1000), rollUpMinutes(store, now, 1000)]);
    await rollUpMinutes(store, now, 1000);
    await Promise.all([addUpTotals(store, now, 1000), addUpTotals(store, now, 1000)]);
    expect([await enqueuedInAll(), await enqueuedInTotals()]).toEqual([8, 8]);
    expect(await ids("part/")).toEqual([]);
  });
});

test("the duty rolls up and adds up, and its metrics are there after a month but not for ever", async () => {
  const start = v.platform.now();
  expect(await v.run(v.mill.duties.run("metrics"))).toMatchObject({
    outcomes: { parts: 8, minutes: 2 },
    errors: 0,
  });
  expect(await v.run(v.mill.duties.run("metrics"))).toMatchObject({ processed: 0 });
  expect(await ids("minute/")).toHaveLength(2);
  // Minutes of the year 1970 are older than a month: they are kept for the shortest time only.
  await v.advance(2 * minuteMs);
  expect(await ids("minute/")).toEqual([]);
  expect(await enqueuedInTotals()).toBe(8);
  const minute = Math.floor(start / minuteMs);
  await store.putDocs([partPut(minute, "one-1", partTable())]);
  await v.advance(5 * minuteMs);
  await v.run(v.mill.duties.run("metrics"));
  await v.advance(29 * 86_400_000);
  expect(await ids("minute/")).toHaveLength(1);
  await v.advance(2 * 86_400_000);
  expect(await ids("minute/")).toEqual([]);
});
