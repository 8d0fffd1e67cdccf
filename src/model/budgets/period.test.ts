import { expect, test } from "vitest";
import { periodAt, readReset, startOfPeriod } from "./period.ts";

const at = (text: string): number => Date.parse(text);
const shown = (reset: unknown, instant: string): readonly string[] => {
  const { id, startsAt, endsAt } = periodAt(readReset(reset, "reset"), at(instant));
  expect(startOfPeriod(id)).toBe(startsAt);
  return [id, new Date(endsAt).toISOString()];
};

test("an interval is counted from 1970, so every process finds the same period and none drifts", () => {
  expect(shown({ every: "6h" }, "2026-11-18T13:00:00Z")).toEqual([
    "2026-11-18T12:00:00Z",
    "2026-11-18T18:00:00.000Z",
  ]);
  expect(shown({ every: "6h" }, "2026-11-18T18:00:00Z")[0]).toBe("2026-11-18T18:00:00Z");
  expect(shown({ every: "6h" }, "2026-11-18T17:59:59.999Z")[0]).toBe("2026-11-18T12:00:00Z");
});

test("a day of a zone has 23 or 25 hours where its clocks change, and the next one begins at midnight", () => {
  const days = { every: "1d", zone: "Europe/Berlin" };
  expect(shown(days, "2026-11-18T12:00:00Z")).toEqual(["2026-11-17T23:00:00Z", "2026-11-18T23:00:00.000Z"]);
  expect(shown(days, "2026-03-29T12:00:00Z")).toEqual(["2026-03-28T23:00:00Z", "2026-03-29T22:00:00.000Z"]);
  expect(shown(days, "2026-10-25T12:00:00Z")).toEqual(["2026-10-24T22:00:00Z", "2026-10-25T23:00:00.000Z"]);
});

test("weeks begin on Mondays, months by cron, and rare ticks are found", () => {
  const weeks = { every: "1w", zone: "UTC" };
  expect(shown(weeks, "2026-11-18T12:00:00Z")).toEqual(["2026-11-16T00:00:00Z", "2026-11-23T00:00:00.000Z"]);
  const months = { cron: "0 0 1 * *", zone: "America/New_York" };
  expect(shown(months, "2026-11-18T12:00:00Z")).toEqual(["2026-11-01T04:00:00Z", "2026-12-01T05:00:00.000Z"]);
  const leapDays = { cron: "0 0 29 2 *" };
  expect(shown(leapDays, "2027-06-01T00:00:00Z")).toEqual([
    "2024-02-29T00:00:00Z",
    "2028-02-29T00:00:00.000Z",
  ]);
});

test("periods in byte order are periods in time order", () => {
  const ids = ["2026-11-18T22:59:59Z", "2026-11-18T23:00:00Z", "2027-01-01T00:00:00Z"].map(
    (instant) => shown({ every: "1h" }, instant)[0] ?? "",
  );
  expect(ids.toSorted((one, other) => (one < other ? -1 : 1))).toEqual(ids);
});

test.each([
  ["a zone that does not exist", { every: "1d", zone: "Europe/Atlantis" }, "invalid-schedule"],
  ["an interval that no day of a zone has", { every: "36h", zone: "UTC" }, "invalid-option"],
  ["an interval below a second", { every: "10ms" }, "invalid-schedule"],
  ["nothing", {}, "invalid-option"],
  ["two rules", { every: "1h", cron: "0 0 * * *" }, "invalid-option"],
  ["a cron text that is none", { cron: "every day" }, "invalid-schedule"],
  ["a day that never comes", { cron: "0 0 30 2 *" }, "invalid-schedule"],
])("%s is refused", (_what, reset, code) => {
  expect(() => readReset(reset, "reset")).toThrow(expect.objectContaining({ code }));
});
