/**
 * The checker is only worth what it can find: every invariant is shown to fail on a planted violation, and true
 * histories pass.
 */
import { describe, expect, test } from "vitest";
import { checkHistory, printStory } from "./check-history.ts";
import { invariantNumbers } from "../invariants.ts";
import type { Invariant } from "../invariants.ts";
import { key, twoAttempts } from "../planted/planted.ts";
import type { Bend, Planted, Write } from "../planted/planted.ts";
import { plantedCounters, trueCounters } from "../planted/planted-counters.ts";
import { plantedFlows, trueFlows } from "../planted/planted-flows.ts";
import { plantedGates, trueGates } from "../planted/planted-gates.ts";
import { plantedLanes, trueLanes } from "../planted/planted-lanes.ts";
import { plantedLives } from "../planted/planted-lives.ts";
import { plantedOwners } from "../planted/planted-owners.ts";
import { plantedOutput, trueOutput } from "../planted/planted-output.ts";
import { plantedRuns, trueRuns } from "../planted/planted-runs.ts";
import { plantedSchedules, trueSchedules } from "../planted/planted-schedules.ts";
import { Scribe } from "../scribe.ts";
import { revokeChange } from "../../../src/model/job/operate.ts";
import { aJob } from "../../support/builders.ts";

function found(write: Write, bend: Bend = (evidence) => evidence): Invariant[] {
  const scribe = new Scribe();
  write(scribe);
  return [...new Set(checkHistory(bend(scribe.evidence())).map(({ invariant }) => invariant))];
}

const trueHistories: Record<string, Write> = {
  "a job that completes": (s) => s.live("a"),
  "a retry, a snooze and a hand-back": (s) => {
    s.submit({ id: "a", ...twoAttempts });
    s.claim("a");
    s.settle("a", "retry");
    s.claim("a");
    s.change("a", "snoozed", "ready");
    s.claim("a", { counts: 0 });
    s.change("a", "handed-back", "ready");
    s.claim("a", { counts: 0 });
    s.settle("a", "failed", { reason: "retries-exhausted" });
  },
  "a lease that ran out, and a late settle that is refused": (s) => {
    s.submit({ id: "a", ...twoAttempts });
    s.claim("a");
    s.now += 500;
    s.extend("a");
    s.now += 1000;
    s.change("a", "reclaimed", "ready");
    s.extend("a", "stale");
    s.settle("a", "completed", { answer: "stale" });
    s.claim("a");
    s.settle("a", "completed");
  },
  "a replay, a removal and a second life under the same id": (s) => {
    s.live("a");
    s.change("a", "replayed", "ready");
    s.claim("a");
    s.settle("a", "completed");
    s.remove("a");
    s.live("a");
  },
  "a revoke, which keeps no error and gives the attempt back, and a late settle that is refused": (s) => {
    s.isFaultFree = true;
    s.submit({ id: "a" });
    s.claim("a");
    s.now += 10;
    s.revoke("a");
    s.now += 10;
    s.settle("a", "completed", { answer: "stale" });
    s.extend("a", "stale");
    s.claim("a", { counts: 0 });
    s.settle("a", "completed");
  },
  "a lease that ran out although a revoke of unknown outcome was on its way": (s) => {
    s.submit({ id: "a", ...twoAttempts });
    s.claim("a");
    s.call(
      "changeIf",
      [{ id: "a", cases: [{ guard: { states: ["running"] }, next: revokeChange.next }] }],
      null,
      {
        seen: "unknown",
      },
    );
    s.now += 1500;
    s.change("a", "reclaimed", "ready");
    s.claim("a");
    s.settle("a", "completed");
  },
  "a revoked job that is claimed before a later one, because it keeps its place": (s) => {
    s.submit({ id: "a" });
    s.now += 10;
    s.submit({ id: "b" });
    s.claim("a");
    s.now += 10;
    s.revoke("a");
    s.claim("a", { counts: 0 });
    s.claim("b");
    s.settle("a", "completed");
    s.settle("b", "completed");
  },
  "a purge that takes what has ended and leaves the rest": (s) => {
    s.live("a");
    s.submit({ id: "b" });
    s.now += 10;
    s.purge();
    s.claim("b");
    s.settle("b", "completed");
  },
  "a unique key that passes from one job to the next": (s) => {
    s.live("a", key());
    s.live("b", key());
    s.submit({ id: "c", ...key("started") });
    s.claim("c");
    s.submit({ id: "d", ...key("started") });
    s.settle("c", "completed");
    s.claim("d");
    s.settle("d", "completed");
  },
  "a follow-up that is made with the completion": (s) => {
    s.submit({ id: "a" });
    s.claim("a");
    s.settle("a", "completed", { effects: aJob({ id: "b" }) });
    s.claim("b");
    s.settle("b", "completed");
  },
};

describe("true histories", () => {
  const all = {
    ...trueHistories,
    ...trueGates,
    ...trueLanes,
    ...trueSchedules,
    ...trueFlows,
    ...trueRuns,
    ...trueOutput,
    ...trueCounters,
  };
  test.each(Object.entries(all))("%s is accepted", (_name, write) => {
    expect(found(write)).toEqual([]);
  });
});

const planted: readonly Planted[] = [
  ...plantedOwners,
  ...plantedLives,
  ...plantedGates,
  ...plantedLanes,
  ...plantedSchedules,
  ...plantedFlows,
  ...plantedRuns,
  ...plantedOutput,
  ...plantedCounters,
];

describe("planted violations", () => {
  test.each([...planted])("invariant %i is found broken when %s", (...each) => {
    const [invariant, , write, bend] = each as unknown as Planted;
    expect(found(write, bend)).toContain(invariant);
  });

  test("every invariant that the checker knows has a planted violation", () => {
    expect(new Set(planted.map(([invariant]) => invariant))).toEqual(new Set(invariantNumbers));
  });
});

test("the story of a job has its spec, its events, its calls and its handlers", () => {
  const scribe = new Scribe();
  scribe.live("a");
  const story = printStory(scribe.evidence(), "a");
  for (const part of [
    "job a",
    "spec",
    "submitted -> ready",
    "claimed #1 by w1",
    "settle #1 completed = ok",
    "handler #1 ended",
  ])
    expect(story).toContain(part);
});
