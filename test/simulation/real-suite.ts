/** The simulation on a store of a real server: each seed a test, on an empty store. */
import { describe, expect, test } from "vitest";
import { judgeBy } from "../history/judge-by.ts";
import type { RealStore } from "./open-network.ts";
import { runSeed, seedsToRun } from "./run-seed.ts";

export interface RealSubject extends Pick<RealStore, "open"> {
  readonly title: string;
  readonly seeds: number;
}

/** About the latency that the network draws for a call without faults: several nodes' calls come in that span. */
const meetingUs = 2000;

/** The first seed beyond the default ones whose jobs have lanes and whose calls meet. */
const withLanesMeeting = 9;

export function describeRealSimulation({ title, seeds, open }: RealSubject): void {
  const { from, to } = seedsToRun(seeds);
  const range = Array.from({ length: to - from + 1 }, (_, index) => from + index);
  const all = from === 1 && to === seeds ? [...range, withLanesMeeting] : range;

  describe(`on ${title}`, () => {
    test.each(all.filter((seed) => seed % 2 === 0))(
      "seed %i keeps every invariant, one call at a time",
      async (seed) => {
        const judge = judgeBy({ isSerial: true });
        const { failure } = await runSeed(seed, { realStore: { open, overlapUs: 0 } }, judge);
        expect(failure).toBeNull();
      },
    );

    test.each(all.filter((seed) => seed % 2 === 1))(
      "seed %i keeps every invariant that knows no order, with calls that meet at the server",
      async (seed) => {
        const judge = judgeBy({ isSerial: false });
        const { failure } = await runSeed(seed, { realStore: { open, overlapUs: meetingUs } }, judge);
        expect(failure).toBeNull();
      },
    );
  });
}
