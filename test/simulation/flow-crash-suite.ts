/** Flows whose process dies at a commit: every commit on a store in memory, some of each scenario on a real server. */
import { describe, expect, test } from "vitest";
import { judgeFlows } from "../history/checks/check-flows.ts";
import { liveThrough } from "./crash-world.ts";
import type { CrashPoint, Life } from "./crash-world.ts";
import { scenarios, statesOf } from "./flow-scenarios.ts";
import type { EmittedEvent } from "./flow-scenarios.ts";
import type { RealStore } from "./open-network.ts";

export interface CrashSubject {
  readonly title: string;
  readonly open?: RealStore["open"];
  /** How many crashes of each scenario, spread over its calls; left out for one behind each call, up to crashesMax. */
  readonly crashes?: number;
}

export function describeFlowCrashes({ title, open, crashes }: CrashSubject): void {
  const realStore = open === undefined ? undefined : { open, overlapUs: 0 };
  describe(`on ${title} a process dies at any commit, and the next one brings the flow to its end:`, () => {
    test.each(scenarios.map((scenario) => [scenario.name, scenario] as const))(
      "%s",
      async (_, scenario) => {
        const undisturbed = await liveThrough(scenario, null, { realStore });
        expectRight(scenario, null, undisturbed);
        for (const crash of pointsOf(numbersTo(undisturbed.calls), crashes))
          expectRight(scenario, crash, await liveThrough(scenario, crash, { realStore }));
      },
      600_000,
    );
  });
}

function numbersTo(calls: number): readonly number[] {
  return Array.from({ length: calls }, (_, at) => at + 1);
}

/** A flow that waits for its retention makes many calls that are all alike. */
const crashesMax = 80;

/**
 * MILLRACE_CRASHES=all dies before and behind every call on every store, MILLRACE_CRASHES=N so often in each scenario.
 */
const { MILLRACE_CRASHES: asked } = process.env;

/**
 * What a process leaves that dies behind a call, it leaves too where it dies before its next one, but for calls that
 * are both on their way: so by default it dies behind each call, and before the first.
 *
 * @param numbers of the calls at which it dies
 */
export function pointsOf(numbers: readonly number[], given: number | undefined): readonly CrashPoint[] {
  const both = bothSidesOf(numbers);
  if (asked === "all") return both;
  const isEach = asked === undefined && given === undefined;
  const all = isEach ? both.filter(({ call, when }) => when === "behind" || call === numbers[0]) : both;
  const crashes = Math.min(all.length, asked === undefined ? (given ?? crashesMax) : Number(asked));
  const step = all.length / crashes;
  return Array.from({ length: crashes }, (_, at) => all[Math.floor((at + 0.5) * step)] as CrashPoint);
}

export function bothSidesOf(numbers: readonly number[]): readonly CrashPoint[] {
  return numbers.flatMap((call): CrashPoint[] => [
    { call, when: "before" },
    { call, when: "behind" },
  ]);
}

function expectRight(told: EmittedEvent, crash: CrashPoint | null, life: Life): void {
  const { name, ends, nodes = {}, completed, isPruned = false } = told;
  const where = `${name}, ${crash === null ? "undisturbed" : `crash ${crash.when} call ${crash.call}`}`;
  expect([...judgeFlows(life.jobs, life.feed)], where).toEqual([]);
  if (isPruned) return;
  const states = statesOf(life.jobs);
  const end = states[""];
  expect(ends, where).toContain(end);
  if (end !== ends[0]) return;
  expect(states, where).toMatchObject(nodes);
  const total = life.jobs.filter(({ state, attempt }) => state === "completed" && attempt > 0).length;
  if (completed !== undefined) expect(total, where).toBe(completed);
}
