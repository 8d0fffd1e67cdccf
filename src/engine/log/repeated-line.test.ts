// Lines of loops: said when trouble begins, then counted.
import { expect, test } from "vitest";
import { RepeatedLine, RepeatedLines } from "./repeated-line.ts";

function aLog() {
  const lines: unknown[] = [];
  let nowMs = 0;
  const write = (level: string) => (message: string, fields?: unknown) =>
    void lines.push([level, message, fields]);
  return {
    lines: () => lines.splice(0),
    pass: (ms: number) => void (nowMs += ms),
    around: {
      log: { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") },
      platform: { monotonicUs: () => nowMs * 1000 },
    },
  };
}

test("a line that comes again and again is written once, then once a minute with how often it came", () => {
  const { lines, pass, around } = aLog();
  const line = new RepeatedLine(around, "warn", "away");
  for (let second = 0; second < 120; second++) {
    line.say({ second });
    pass(1000);
  }
  expect(lines()).toEqual([
    ["warn", "away", { second: 0 }],
    ["warn", "away", { second: 60, times: 60 }],
  ]);
  line.over();
  expect(lines()).toEqual([["info", "over: away", { times: 59 }]]);
});

test("new trouble after a while is logged at once, trouble that comes and goes every 10 s at most", () => {
  const { lines, pass, around } = aLog();
  const line = new RepeatedLine(around, "error", "away");
  for (let at = 0; at < 100; at++) {
    line.say({});
    line.over();
    pass(100);
  }
  expect(lines()).toEqual([["error", "away", {}]]);
  line.say({});
  expect(lines()).toEqual([["error", "away", { times: 100 }]]);
  line.over();
  pass(10_000);
  line.over();
  line.say({});
  expect(lines()).toEqual([["error", "away", {}]]);
});

test("different messages are told apart, and remembered within a bound", () => {
  const { lines, around } = aLog();
  const repeated = new RepeatedLines(around);
  for (let at = 0; at < 5; at++) for (const message of ["one", "two"]) repeated.say("warn", message, { at });
  expect(lines()).toEqual([
    ["warn", "one", { at: 0 }],
    ["warn", "two", { at: 0 }],
  ]);
});
