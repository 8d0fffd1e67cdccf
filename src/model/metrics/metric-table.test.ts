import { expect, test } from "vitest";
import { MetricTable, otherSeries, seriesMax, StepCounts } from "./metric-table.ts";
import { MetricTotals } from "./metric-totals.ts";

const titles = (table: MetricTable): string[] =>
  [...table.series()].map(({ queue, name }) => `${queue} ${name}`);

function tableOf(queue: string, name: string, enqueued: number): MetricTable {
  const table = new MetricTable();
  const series = table.of(queue, name);
  series.enqueued = enqueued;
  series.outcomes[0] = enqueued;
  for (const sketch of [series.wait, series.run, series.total])
    for (let each = 1; each <= enqueued; each++) sketch.add(each * 1000);
  table.call("claim").took.add(500);
  return table;
}

test("a million names make a bounded number of series, and nothing is left out of the counts", () => {
  const table = new MetricTable();
  for (let number = 0; number < 1_000_000; number++) table.of("mail", `job-${number}`).enqueued += 1;
  for (let number = 0; number < 1000; number++) table.of(`queue-${number}`, "send").enqueued += 1;
  const all = [...table.series()];
  expect(all.length).toBeLessThanOrEqual(seriesMax + 2);
  expect(table.of("mail", "one more").name).toBe(otherSeries);
  expect(table.of("one more", "send")).toMatchObject({ queue: otherSeries, name: otherSeries });
  expect(all.reduce((sum, { enqueued }) => sum + enqueued, 0)).toBe(1_001_000);
});

test("merging many full tables keeps the bound", () => {
  const merged = new MetricTable();
  for (let each = 0; each < 10; each++) {
    const table = new MetricTable();
    for (let number = 0; number < 1000; number++)
      table.of(`${each}-${number % 50}`, `${each}-${number}`).enqueued += 1;
    merged.absorb(table.pack());
  }
  expect([...merged.series()].length).toBeLessThanOrEqual(2 * seriesMax + 1);
  expect([...merged.series()].reduce((sum, { enqueued }) => sum + enqueued, 0)).toBe(10_000);
});

test("a packed table is added like the table itself", () => {
  const [one, other] = [tableOf("a", "x", 3), tableOf("a", "x", 5)];
  const merged = new MetricTable();
  merged.absorb(one.pack());
  merged.absorb(other.pack());
  one.merge(other);
  expect(merged).toEqual(one);
  expect(titles(merged)).toEqual(["a x"]);
  expect(merged.of("a", "x").countOf("completed")).toBe(8);
});

test("only the wanted series of a packed table are added", () => {
  const table = tableOf("a", "x", 3);
  table.merge(tableOf("b", "x", 1));
  const wanted = new MetricTable();
  wanted.absorb(table.pack(), (queue) => queue === "b");
  expect(titles(wanted)).toEqual(["b x"]);
});

test("a table of a version that is not known is refused", () => {
  expect(() => new MetricTable().absorb({ version: 2, series: [], calls: [] } as never)).toThrow(RangeError);
  expect(() => MetricTotals.unpack({ version: 2, series: [], calls: [] } as never)).toThrow(RangeError);
});

test("totals that were packed and unpacked go on as before", () => {
  const totals = new MetricTotals();
  totals.absorb(tableOf("a", "x", 3));
  const again = MetricTotals.unpack(totals.pack());
  again.absorb(tableOf("a", "x", 2));
  const [series] = [...again.series];
  expect(series).toMatchObject({ queue: "a", name: "x", enqueued: 5 });
  expect(series?.outcomes.get("completed")).toBe(5);
  expect(series?.run).toMatchObject({ count: 5, sumUs: 9000 });
  // Values of 1, 2, 3, 1 and 2 ms under the bounds of 1 ms, 2.5 ms and 5 ms.
  expect(series?.run.upTo.slice(0, 3)).toEqual([2, 4, 5]);
});

test("counts of steps are kept in tables and totals, beside series without steps and those of an earlier version", () => {
  const table = tableOf("mail", "send", 2);
  const { steps: none } = table.of("mail", "send");
  expect(none).toBeNull();
  const earlier = table.pack();
  const steps = (table.of("mail", "order").steps = new StepCounts());
  steps.completed = 3;
  steps.failed = 1;
  for (let each = 0; each < 4; each++) steps.run.add(5000);
  const merged = new MetricTable();
  for (const packed of [earlier, table.pack(), table.pack()]) merged.absorb(packed);
  expect(merged.of("mail", "send")).toMatchObject({ enqueued: 6, steps: null });
  expect(merged.of("mail", "order").steps).toMatchObject({ completed: 6, failed: 2, run: { count: 8 } });
  const totals = new MetricTotals();
  totals.absorb(merged);
  totals.absorb(table);
  const again = [...MetricTotals.unpack(totals.pack()).series];
  expect(again).toMatchObject([
    { name: "send", steps: null },
    { name: "order", steps: { completed: 9, failed: 3, run: { count: 12, sumUs: 60_000 } } },
  ]);
});
