/**
 * The field `durable` of a job: marks that stores set and guards read, and the round of the run above them. It is 0 for
 * a job that is not durable, and for a run whose journal is still empty.
 */

export type DurableMark = "hasJournal" | "hasUndo" | "isEnding" | "hasChildren";

export const durableMarks: Readonly<Record<DurableMark, number>> = {
  /** Something was appended: a worker reads the journal first. */
  hasJournal: 1,
  /** A step with an undo is recorded: a bad end has to undo it first. */
  hasUndo: 2,
  /** The run is to end badly: its undos run. */
  isEnding: 4,
  /** It has started jobs that end with it: its end, whatever the cause, leaves deferred work. */
  hasChildren: 8,
};

/** A new round adds this, and clears the marks. */
export const roundStep = 16;

/** Grows with each `continueWith` and each retry from the start. */
export function roundOf(durable: number): number {
  return Math.floor(durable / roundStep);
}

/** A guard that holds as long as the run is in this round, whatever its marks. */
export function guardOfRound(round: number): { readonly mask: number; readonly is: number } {
  return { mask: -roundStep, is: round * roundStep };
}

export function hasMark(durable: number, mark: DurableMark): boolean {
  return (durable & durableMarks[mark]) !== 0;
}
