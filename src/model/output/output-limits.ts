/** The written maxima of output: what one attempt, or the life of one durable run, may write. */
export const outputLimits = {
  /** Without `keep`; with it the oldest frames go. */
  framesMax: 100_000,
  /** Characters of the encoded frames, likewise. */
  charsMax: 16 * 1024 * 1024,
  keepMax: 10_000,
  /** Characters of the encoded summary. */
  summaryCharsMax: 64 * 1024,
  /** Frames wait so long for others to share their chunk with. */
  packMs: 20,
  /** Characters that are sent without waiting; a chunk with as many is closed. */
  chunkChars: 16 * 1024,
} as const;
