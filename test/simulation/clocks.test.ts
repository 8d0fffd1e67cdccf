/** Invariant 30: no decision depends on a worker's wall clock. */
import { expect, test } from "vitest";
import { readAttemptLog } from "../../src/model/job/attempt-log.ts";
import { isMemberTag } from "../../src/model/flow/flow-meta.ts";
import type { Evidence } from "../history/history.ts";
import { drawPlan } from "./plan.ts";
import { runSimulation } from "./run-simulation.ts";

const dayMs = 86_400_000;

/** Minted ids carry the time of the minting; everything else must be equal, so jobs are named by their place. */
function outcomeOf({ snapshot }: Evidence): unknown {
  const names = new Map(snapshot.jobs.map(({ id, seq }) => [id, seq]));
  const jobs = snapshot.jobs.map(({ id: _id, input, attempts, owner: _owner, ...rest }) => ({
    ...rest,
    flow: names.get(rest.flow ?? ""),
    tags: rest.tags?.filter((tag) => !isMemberTag(tag)),
    input: input.replace(/"parent":"[^"]*"/, ""),
    failures: readAttemptLog(attempts).entries.length,
  }));
  const feed = snapshot.feed.map(({ at, events }) => [
    at,
    events.map(({ id, extra: _extra, ...event }) => [names.get(id) ?? "deleted", event]),
  ]);
  return { jobs, feed, stateCounts: snapshot.stateCounts, now: snapshot.now };
}

test.each([6, 7, 9, 12, 20])(
  "shifting every worker's clock by a day leaves the outcome as it is (seed %i)",
  async (seed) => {
    const plan = drawPlan(seed);
    const steady = { ...plan, isOn: { ...plan.isOn, skew: false } };
    const [early, exact, late] = [
      await runSimulation(steady, { offsetMs: -dayMs }),
      await runSimulation(steady, { offsetMs: 0 }),
      await runSimulation(steady, { offsetMs: dayMs }),
    ];
    expect(outcomeOf(early.evidence)).toEqual(outcomeOf(exact.evidence));
    expect(outcomeOf(late.evidence)).toEqual(outcomeOf(exact.evidence));
  },
);
