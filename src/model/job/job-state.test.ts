import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  arrows,
  canMove,
  isJobState,
  isTerminal,
  jobStates,
  liveStates,
  stateCodes,
  stateOfCode,
  terminalStates,
  waitingStates,
} from "./job-state.ts";
import type { JobState, Origin } from "./job-state.ts";

/** Written out by hand from the published table, so that neither the code nor its drawing can change alone. */
const published: Readonly<Record<Origin, readonly JobState[]>> = {
  submit: ["ready", "scheduled", "blocked"],
  blocked: ["ready", "scheduled", "completed", "failed", "skipped", "cancelled", "expired"],
  scheduled: ["ready", "cancelled", "expired"],
  ready: ["running", "scheduled", "failed", "cancelled", "expired"],
  running: ["completed", "failed", "cancelled", "expired", "skipped", "scheduled", "suspended", "ready"],
  suspended: ["ready", "scheduled", "failed", "cancelled", "expired"],
  completed: ["ready", "scheduled", "blocked"],
  failed: ["ready", "scheduled", "blocked"],
  cancelled: ["ready", "scheduled", "blocked"],
  expired: ["ready", "scheduled", "blocked"],
  skipped: ["ready", "scheduled", "blocked"],
};

const origins = Object.keys(published) as readonly Origin[];

describe("the table of arrows", () => {
  for (const from of origins) {
    for (const to of jobStates) {
      const allowed = published[from].includes(to);
      test(`${from} to ${to} is ${allowed ? "allowed" : "refused"}`, () => {
        expect(canMove(from, to)).toBe(allowed);
      });
    }
  }

  test("the table drawn in the header is the table in the code", () => {
    const drawn = readDrawnTable();
    expect(Object.keys(drawn).sort()).toEqual([...origins].sort());
    for (const from of origins) expect(new Set(drawn[from]), from).toEqual(new Set(arrows[from]));
  });

  test("no state has an arrow to itself, and a finished job has none to another end", () => {
    for (const state of jobStates) expect(canMove(state, state)).toBe(false);
    for (const from of terminalStates) for (const to of terminalStates) expect(canMove(from, to)).toBe(false);
  });

  test("only a claim leads to running, and every live state can be cancelled and can expire", () => {
    expect(origins.filter((from) => canMove(from, "running"))).toEqual(["ready"]);
    for (const from of liveStates) {
      expect(canMove(from, "cancelled")).toBe(true);
      expect(canMove(from, "expired")).toBe(true);
    }
  });
});

function readDrawnTable(): Record<string, string[]> {
  const source = readFileSync(new URL("./job-state.ts", import.meta.url), "utf8");
  const header = source.slice(0, source.indexOf("*/")).split("\n");
  const first = header.findIndex((line) => /^ \* {2}from +to$/.test(line)) + 1;
  const drawn: Record<string, string[]> = {};
  for (const line of header.slice(first)) {
    const row = /^ \* {2}(\w+) {2,}(.+)$/.exec(line);
    if (row === null) break;
    const targets = (row[2] as string)
      .replaceAll(/\([^)]*\)/g, "")
      .replace(/:.*$/, "")
      .split(",")
      .map((target) => target.trim());
    for (const from of row[1] === "terminal" ? terminalStates : [row[1] as string]) drawn[from] = targets;
  }
  return drawn;
}

describe("state codes", () => {
  test("are fixed for ever, because stores keep them", () => {
    expect(stateCodes).toEqual({
      blocked: 0,
      scheduled: 1,
      ready: 2,
      running: 3,
      suspended: 4,
      completed: 5,
      failed: 6,
      cancelled: 7,
      expired: 8,
      skipped: 9,
    });
  });

  test("lead back to their state, and an unknown code is a wrong program", () => {
    for (const state of jobStates) expect(stateOfCode(stateCodes[state])).toBe(state);
    for (const code of [-1, 10, 0.5, Number.NaN]) expect(() => stateOfCode(code)).toThrow(RangeError);
  });
});

test("live, waiting and terminal states part the states as their names say", () => {
  expect([...liveStates, ...terminalStates].sort()).toEqual([...jobStates].sort());
  expect(jobStates.filter((state) => isTerminal(state))).toEqual([...terminalStates]);
  expect([...waitingStates, "running"].sort()).toEqual([...liveStates].sort());
});

test("only the names of states are states, whatever a plain object inherits", () => {
  for (const state of jobStates) expect(isJobState(state)).toBe(true);
  for (const value of ["", "Ready", "__proto__", "toString", "submit", 2, null, undefined, {}]) {
    expect(isJobState(value)).toBe(false);
  }
});
