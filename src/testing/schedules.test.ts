// Schedules as an application tests them: by the clock of testMillrace, over both changes of daylight saving.
import { expect, test } from "vitest";
import { job } from "../engine/submit/job-definition.ts";
import { handler } from "../worker/handler.ts";
import { testMillrace } from "./index.ts";

const report = job<string>("report");

async function ticksOver(startAt: number, days: number, cron: string): Promise<string[]> {
  const ticks: string[] = [];
  const run = handler(report, ({ schedule }) => void ticks.push(schedule?.tick?.toISOString() ?? ""));
  await using t = await testMillrace({ startAt, handlers: [run] });
  await t.mill.schedule("s", report, "x", { cron, zone: "Europe/Berlin" });
  for (let day = 0; day < days; day++) {
    await t.clock.advance("1d");
    await t.drain();
  }
  return ticks;
}

test("a time of day that spring leaves out fires at the end of the gap", async () => {
  expect(await ticksOver(Date.UTC(2026, 2, 27, 12), 3, "30 2 * * *")).toEqual([
    "2026-03-28T01:30:00.000Z",
    "2026-03-29T01:00:00.000Z",
    "2026-03-30T00:30:00.000Z",
  ]);
});

test("a time of day that autumn has twice fires the first time", async () => {
  expect(await ticksOver(Date.UTC(2026, 9, 23, 12), 3, "30 2 * * *")).toEqual([
    "2026-10-24T00:30:00.000Z",
    "2026-10-25T00:30:00.000Z",
    "2026-10-26T01:30:00.000Z",
  ]);
});

test("every hour passes over the gap and fires in both halves of the fold", async () => {
  expect(await ticksOver(Date.UTC(2026, 2, 28, 12), 1, "0 * * * *")).toHaveLength(24);
  expect(await ticksOver(Date.UTC(2026, 9, 24, 12), 1, "0 * * * *")).toHaveLength(24);
});
