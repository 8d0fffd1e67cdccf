/** Sizes and times of the bucket store that tests make smaller: real ones are hours and thousands of records. */

export interface BucketTuning {
  /**
   * After such a pause the slot may have been used and removed again, so that it no longer keeps this writer out. Three
   * keep-alives, so a writer that lives never looks; half of the time that a new writer lives before it removes
   * anything young, so no wall clock is needed for it.
   */
  readonly sleptMs: number;
  /** How long objects stay after a newer mark made them needless. */
  readonly graceMs: number;
  /** A clean-up costs a LIST for each thousand objects, so it does not follow every checkpoint. */
  readonly cleanUpEveryMs: number;
  /** A checkpoint comes after N records, and this long after the last one, unless the log is very long. */
  readonly recordsMin: number;
  readonly apartMs: number;
  /** At the close a mark is worth its requests if the next opener would have to read more than this. */
  readonly closeRecords: number;
}

export const defaultTuning: BucketTuning = {
  sleptMs: 30_000,
  graceMs: 60 * 60_000,
  cleanUpEveryMs: 10 * 60_000,
  recordsMin: 1000,
  apartMs: 60_000,
  closeRecords: 100,
};
