/**
 * Bugs that the simulation finds and that are not fixed yet: what they break is left out of the verdict on other seeds,
 * so that those can still find something new. simulation.test.ts expects each to be found at its seed; once it is fixed
 * that test fails, and its line goes.
 */
import type { Violation } from "../history/checks/check-history.ts";
import type { Evidence } from "../history/history.ts";

export interface KnownBug {
  readonly seed: number;
  readonly what: string;
  readonly causes: (violation: Violation, evidence: Evidence) => boolean;
}

export const knownBugs: readonly KnownBug[] = [];

export const isKnown = (violation: Violation, evidence: Evidence): boolean =>
  knownBugs.some(({ causes }) => causes(violation, evidence));
