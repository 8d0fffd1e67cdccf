/** Durable runs whose process dies at a commit: every commit on a store in memory, some of each on a real server. */
import { describe, expect, test } from "vitest";
import { readEntry } from "../../src/model/durable/entry-text.ts";
import type { EntryBody } from "../../src/model/durable/journal-entry.ts";
import { isTerminal } from "../../src/model/job/job-state.ts";
import type { Entry } from "../../src/store/records.ts";
import { judgeFlows } from "../history/checks/check-flows.ts";
import { liveThrough } from "./crash-world.ts";
import type { Life } from "./crash-world.ts";
import { bothSidesOf, pointsOf } from "./flow-crash-suite.ts";
import type { CrashSubject } from "./flow-crash-suite.ts";
import { runId, runScenarios } from "./run-scenarios.ts";
import type { EndedRun } from "./run-scenarios.ts";

export function describeRunCrashes({ title, open, crashes }: CrashSubject): void {
  const realStore = open === undefined ? undefined : { open, overlapUs: 0 };
  describe(`on ${title} a process dies at any commit, and the next one goes on with the durable run:`, () => {
    test.each(runScenarios.map((scenario) => [scenario.name, scenario] as const))(
      "%s",
      async (_, scenario) => {
        const undisturbed = await liveThrough(scenario, null, { realStore });
        expect(faultsOf(scenario, undisturbed, undisturbed)).toEqual([]);
        const { commits } = undisturbed;
        const points = crashes === undefined ? bothSidesOf(commits) : pointsOf(commits, crashes);
        expect(commits.length).toBeGreaterThan(5);
        for (const crash of points) {
          const life = await liveThrough(scenario, crash, { realStore });
          const where = `crash ${crash.when} call ${crash.call}`;
          expect(faultsOf(scenario, life, undisturbed), where).toEqual([]);
        }
      },
      600_000,
    );
  });
}

const bodyOf = (entry: Entry): EntryBody => readEntry(entry).body;

function callsOf(entries: readonly Entry[], kind: EntryBody["kind"]): readonly string[] {
  return entries.map(bodyOf).flatMap((body) => ("call" in body && body.kind === kind ? [body.call] : []));
}

function same(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** What is wrong with a life, as sentences. */
export function faultsOf(scenario: EndedRun, life: Life, undisturbed: Life): readonly string[] {
  const run = life.jobs.find(({ id }) => id === runId);
  if (run === undefined) return ["the run is gone"];
  const faults: string[] = [...judgeFlows(life.jobs, life.feed)].map(({ message }) => message);
  if (run.state !== scenario.state) faults.push(`the run is ${run.state} (${run.reason}: ${run.attempts})`);
  const before = undisturbed.jobs.find(({ id }) => id === runId);
  if (run.result !== before?.result) faults.push(`the result is ${run.result}, not ${before?.result}`);
  if (scenario.result !== undefined && !same(JSON.parse(run.result ?? "null"), scenario.result))
    faults.push(`the result is ${run.result}`);
  for (const { id, name, state } of life.jobs)
    if (!isTerminal(state)) faults.push(`${name} ${id} is ${state}`);
  if (!same(endsOf(life), endsOf(undisturbed)))
    faults.push(`jobs ended as ${endsOf(life).join()}, not ${endsOf(undisturbed).join()}`);
  for (const { id, entries } of life.journals) faults.push(...journalFaults(id, entries));
  return [...faults, ...effectFaults(scenario, life, undisturbed)];
}

/** The jobs beside the run: none is lost, none is there twice. */
function endsOf({ jobs }: Life): readonly string[] {
  return jobs
    .filter(({ id }) => id !== runId)
    .map(({ name, state, reason, result }) => `${name} ${state} ${reason} ${result}`)
    .toSorted();
}

function* journalFaults(id: string, entries: readonly Entry[]): Generator<string> {
  const keys = entries.map(({ key }) => key);
  if (new Set(keys).size < keys.length) yield `${id} has a key twice: ${keys.join()}`;
  for (const kind of ["result", "undone"] as const) {
    const calls = callsOf(entries, kind);
    if (new Set(calls).size < calls.length) yield `${id} has a ${kind} twice: ${calls.join()}`;
  }
  const booked = entries
    .map(bodyOf)
    .flatMap((body) => (body.kind === "result" && body.hasUndo ? [body.call] : []));
  const undone = callsOf(entries, "undone");
  if (undone.length > 0 && !same(undone, booked.toReversed()))
    yield `${id} has booked ${booked.join()} and undone ${undone.join()}`;
}

function* effectFaults(scenario: EndedRun, life: Life, undisturbed: Life): Generator<string> {
  const keys = life.effects.map(({ what }) => what);
  for (const by of ["first", "second"]) {
    const own = life.effects.filter((effect) => effect.by === by).map(({ what }) => what);
    if (new Set(own).size < own.length) yield `the ${by} process did something twice: ${own.join()}`;
  }
  const distinct = [...new Set(keys)];
  const isUndisturbed = life === undisturbed;
  if (isUndisturbed && distinct.length < keys.length) yield `something happened twice: ${keys.join()}`;
  const expected = undisturbed.effects.map(({ what }) => what);
  if (!same(distinct.toSorted(), expected.toSorted()))
    yield `${distinct.join()} happened, and not ${expected.join()}`;
  const recorded = life.atCrash.flatMap(({ id, round, entries }) => [
    ...callsOf(entries, "result").map((call) => `${id}:${round}:${call}`),
    ...callsOf(entries, "undone").map((call) => `no ${call}`),
  ]);
  for (const { by, what } of life.effects)
    if (by === "second" && recorded.includes(what)) yield `${what} happened again after its record`;
  if (scenario.undone === undefined) return;
  const undone = distinct.filter((what) => what.startsWith("no "));
  if (!same(undone, scenario.undone)) yield `undone was ${undone.join()}`;
}
