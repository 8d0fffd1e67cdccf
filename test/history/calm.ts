/** Since when what is promised in seconds has to be kept, and within which time. */
import type { Evidence } from "./history.ts";

/** A duty sleeps at most 1.5 s; the rest is for calls on their way. */
export const promptMs = 3000;
/** After the healing the longest backoff of a duty and the longest hanging call still have to pass. */
const recoveryMs = 130_000;

/** Store time; null for never. */
export function calmSince({ isFaultFree, healedAt }: Evidence): number | null {
  if (isFaultFree) return 0;
  return healedAt === null ? null : healedAt + recoveryMs;
}
