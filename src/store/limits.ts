/** The written maxima of the store contract. A larger unit is allowed alone; a larger call is split by the engine. */
export const storeLimits = {
  /** Items in one call, over all its units. */
  callItemsMax: 1000,
  /** Jobs handed out by one claim. */
  claimJobsMax: 500,
  /** Bytes of input handed out by one claim, beside the last job: a process must be able to hold what it claims. */
  claimInputBytesMax: 16 * 1024 * 1024,
  /** Jobs in one unit (one enqueueMany). */
  unitJobsMax: 100_000,
  tagsPerJobMax: 16,
  /** Gates that one job may name itself: its limits. */
  gatesPerJobMax: 8,
  /** Capabilities that one job may ask for. */
  capsPerJobMax: 32,
  /** Learned routes in one offer of a claim: a worker offers more of them in rotation. */
  learnedRoutesPerOfferMax: 64,
  /**
   * Edges that the end of a member goes along in the step that ends it, and in each step of deferred work behind that.
   */
  edgesAtOnceMax: 64,
  edgesPerStepMax: 500,
  logLinesPerJobMax: 1000,
  /** Of an attempt log that the event of its settle carries. */
  noteCharsMax: 48,
  /**
   * How long a call to a shared store waits for a row that somebody's open transaction holds, before its items are
   * done one by one; and behind the first of these that is still held, how long for each of the others.
   */
  lockWaitMs: 30,
  lockWaitAgainMs: 1,
} as const;
