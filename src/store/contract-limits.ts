/** The written maxima of the store contract. A larger unit is allowed alone; a larger call is split by the engine. */
export const storeLimits = {
  /** Items in one call, over all its units. */
  callItemsMax: 1000,
  /** Jobs returned by one claim. */
  claimJobsMax: 500,
  /** Bytes of input returned by one claim, not counting the last job: a process must be able to hold what it claims. */
  claimInputBytesMax: 16 * 1024 * 1024,
  /** Jobs in one unit (one enqueueMany). */
  unitJobsMax: 100_000,
  tagsPerJobMax: 16,
  /** Gates that one job may name: its limits. */
  gatesPerJobMax: 8,
  /** Capabilities that one job may require. */
  requiresPerJobMax: 32,
  /** Learned routes in one offer of a claim: a worker offers more of them in rotation. */
  learnedRoutesPerOfferMax: 64,
  /** Edges that the end of a member goes along in the step that ends it; the others are deferred. */
  edgesAtOnceMax: 64,
  edgesPerStepMax: 500,
  logLinesPerJobMax: 1000,
  /** Keys of entries that others have appended which a journal goes on refusing in a new round, the newest ones. */
  journalKeysKeptMax: 1000,
  /** Characters of an attempt log that the event of a settle carries. */
  noteCharsMax: 48,
  /**
   * How long a call to a shared store waits for a row that an open transaction holds before its items are done one by
   * one; then also how long for each further item after the first one that is still held.
   */
  lockWaitMs: 30,
  lockWaitAgainMs: 1,
} as const;
