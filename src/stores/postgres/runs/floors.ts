/**
 * Claims under a long reader. A transaction that stays open for minutes (a backup, an abandoned session) keeps Postgres
 * from clearing dead index entries. They pile up exactly at the place where claims begin: within 100,000 jobs, a claim
 * grew from 10 to 103 us per job. So when finding rows gets slow, a claim begins at the rank at which the last claim
 * found its first row, and does not ask for the next clock each time.
 *
 * Jobs that come in below the floor (a higher priority, a hand-back) are found by claims without a floor. These take at
 * most a twentieth of the time, and one is always made before an offer is said to be empty. While finding is fast,
 * there are no floors.
 */
import type { Platform } from "../../../platform/platform.ts";

export interface ClaimPlan {
  readonly isBounded: boolean;
  /** One for each offer; null for none. */
  readonly floors: readonly (number | null)[];
  /** The next clock if it is known well enough; null asks for it. */
  readonly knownClock: number | null;
}

/** The measurements of a claim. */
export interface Looks {
  readonly lowest: readonly (number | null)[];
  readonly pickUs: number;
  readonly jobs: number;
  readonly clock: number | null;
  readonly now: number;
}

interface Offer {
  readonly routes: readonly number[];
}

/**
 * Finding and reading the rows is slow if it takes more than this per call plus this per job. A fast claim takes 3 to 5
 * us per job.
 */
const slowUs = { call: 3000, job: 12 };
const restFactor = 20;
const restMinUs = 50_000;
const offersMax = 1000;

export interface Floors {
  plan(offers: readonly Offer[], leaseMs: number): ClaimPlan;
  learn(offers: readonly Offer[], plan: ClaimPlan, looks: Looks): void;
}

export const planWhole = (offers: readonly Offer[]): ClaimPlan => ({
  isBounded: false,
  floors: offers.map(() => null),
  knownClock: null,
});

/** No floors: on a test's clock, a slow claim cannot be recognised. */
export const noFloors: Floors = { plan: planWhole, learn: () => undefined };

export function openFloors(platform: Platform): Floors {
  const floors = new Map<string, number>();
  let isSlow = false;
  let lookAgainUs = 0;
  let clock: { readonly at: number | null; readonly seenUs: number; readonly now: number } | null = null;

  /** Null if it is due: then it must be asked for. */
  const knownClock = (leaseMs: number): number | null => {
    if (clock === null || clock.at === null) return null;
    const now = clock.now + (platform.monotonicUs() - clock.seenUs) / 1000;
    // The leases of this very claim may end before the known clock.
    return clock.at > now && clock.at <= now + leaseMs ? clock.at : null;
  };

  return {
    plan(offers, leaseMs) {
      if (!isSlow || platform.monotonicUs() >= lookAgainUs) return planWhole(offers);
      const bounds = offers.map((offer) => floors.get(keyOf(offer)) ?? null);
      return {
        isBounded: bounds.some((bound) => bound !== null),
        floors: bounds,
        knownClock: knownClock(leaseMs),
      };
    },
    learn(offers, plan, { lowest, pickUs, jobs, clock: at, now }) {
      const nowUs = platform.monotonicUs();
      if (plan.knownClock === null) clock = { at, seenUs: nowUs, now };
      if (!plan.isBounded) {
        isSlow = pickUs > slowUs.call + slowUs.job * jobs;
        lookAgainUs = nowUs + Math.max(restMinUs, pickUs * restFactor);
      }
      if (!isSlow) return floors.clear();
      if (floors.size > offersMax) floors.clear();
      for (const [index, offer] of offers.entries()) {
        const rank = lowest[index] ?? null;
        if (rank !== null) floors.set(keyOf(offer), rank);
      }
    },
  };
}

const keyOf = ({ routes }: Offer): string => routes.join(",");
