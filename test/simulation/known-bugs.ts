/**
 * Bugs that the simulation finds and that are not fixed yet: what they break is left out of the verdict on other seeds,
 * so that those can still find something new. simulation.test.ts expects each to be found at its seed; once it is fixed
 * that test fails, and its line goes.
 */
import type { Violation } from "../history/check-history.ts";
import type { Evidence } from "../history/history.ts";
import { OperatorActs } from "../history/operator-acts.ts";

export interface KnownBug {
  readonly seed: number;
  readonly what: string;
  readonly causes: (violation: Violation, evidence: Evidence) => boolean;
}

export const knownBugs: readonly KnownBug[] = [
  {
    seed: 101,
    what: "a cancel that was asked for is forgotten when the lease is revoked before the worker has heard of it",
    causes: ({ invariant, id }, { operations }) =>
      invariant === 45 &&
      new OperatorActs(operations).list.some((act) => act.what === "revoke" && act.id === id),
  },
];

export const isKnown = (violation: Violation, evidence: Evidence): boolean =>
  knownBugs.some(({ causes }) => causes(violation, evidence));
