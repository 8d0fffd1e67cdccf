/**
 * The history checker for stores that promise less than one order of everything: what such a store does not promise is
 * left out.
 */
import { checkHistory } from "./checks/check-history.ts";
import type { Violation } from "./checks/check-history.ts";
import type { Evidence } from "./history.ts";

export interface Promises {
  /**
   * Whether calls happen strictly one after the other. Where they do not, neither claims nor times of different jobs
   * have one order.
   */
  readonly isSerial: boolean;
}

export type Judge = (evidence: Evidence) => readonly Violation[];

export function judgeBy({ isSerial }: Promises): Judge {
  return isSerial
    ? checkHistory
    : (evidence) => checkHistory(evidence).filter((violation) => !isAboutOneOrder(violation));
}

/** Invariants of one claimer (31, 32), and the times of a feed whose records were written one after the other. */
const isAboutOneOrder = ({ invariant, id }: Violation): boolean =>
  invariant === 31 || invariant === 32 || (invariant === 24 && id === undefined);
