/**
 * How long a limit cools down after upstream has said "too many" (a 429): as long as upstream said, or else 1 s at
 * first, doubled by each further throttle up to 5 min.
 *
 *   closed  ──throttled──► closed       many throttles of one cooldown count once; a longer wait that was named moves
 *                                       its end
 *   open    ──throttled──► closed       counts one more
 *   open    ──120 s quiet──► counts one less, again and again
 */

/** What a limit remembers of its throttles. */
export interface Throttle {
  /** Cooldowns whose length upstream did not name, less those that quiet times took back. */
  readonly count: number;
  /** When the last cooldown ended or ends. */
  readonly until: number;
}

const firstMs = 1000;
const longestMs = 300_000;
const quietMs = 120_000;
/** The cooldown has reached its maximum: counting on would only delay the recovery. */
const countMax = 10;

/**
 * @param known what the limit remembers, and the end of the present cooldown; null for open.
 * @param said how long upstream said; null if it did not say. 0 counts as null, because the job would spin.
 * @returns how long nothing passes from now on, and what to remember; null if the present cooldown covers it.
 */
export function afterThrottle(
  known: { readonly throttle: Throttle | null; readonly closedUntil: number | null },
  said: number | null,
  now: number,
): { readonly closedMs: number; readonly throttle: Throttle } | null {
  const { throttle, closedUntil } = known;
  const count = throttle?.count ?? 0;
  if (closedUntil !== null && closedUntil > now) {
    if (said === null || now + said <= closedUntil) return null;
    return { closedMs: said, throttle: { count, until: now + said } };
  }
  const quiet = throttle === null ? 0 : Math.floor(Math.max(0, now - throttle.until) / quietMs);
  const left = Math.max(0, count - quiet);
  if (said !== null && said > 0) return { closedMs: said, throttle: { count: left, until: now + said } };
  const closedMs = Math.min(longestMs, firstMs * 2 ** left);
  return { closedMs, throttle: { count: Math.min(countMax, left + 1), until: now + closedMs } };
}
