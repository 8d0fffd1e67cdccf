/** What requests and stored bytes cost, by prices that the caller may set. No price decides anything. */
import { MillraceError } from "../../model/error.ts";
import { checkOptions } from "../../model/option.ts";
import type { StoreRequests } from "../../store/store.ts";
import type { RequestCounts } from "./objects/counted.ts";

/** In one currency; each for a single request, `gib` for a GiB that is kept for a month. */
export interface BucketPrices {
  readonly put: number;
  readonly get: number;
  readonly list: number;
  readonly remove: number;
  readonly gib: number;
}

/**
 * US dollars: S3 Standard in US East as public price lists gave it in November 2026. A thousand PUT or LIST requests
 * 0.005, a thousand GET requests 0.0004, DELETE free, the first 50 TB 0.023 per GB and month.
 */
export const defaultPrices: BucketPrices = { put: 5e-6, get: 4e-7, list: 5e-6, remove: 0, gib: 0.023 };

const priceNames = ["put", "get", "list", "remove", "gib"] as const;

export function readPrices(given: Partial<BucketPrices> | undefined, what: string): BucketPrices {
  const prices = { ...defaultPrices, ...checkOptions(given ?? {}, what, priceNames) };
  for (const name of priceNames) {
    const price: unknown = prices[name];
    if (typeof price !== "number" || !Number.isFinite(price) || price < 0)
      throw new MillraceError("invalid-option", `${what}.${name} must be a number from 0 on.`);
  }
  return prices;
}

export function costOf(counts: RequestCounts, prices: BucketPrices): number {
  const { put, get, list, remove } = counts;
  return put * prices.put + get * prices.get + list * prices.list + remove * prices.remove;
}

/** As a store describes it. */
export function requestsOf(counts: RequestCounts, prices: BucketPrices, settled = 0): StoreRequests {
  const cost = costOf(counts, prices);
  const { put, get, list, remove, bytesPut, bytesGot, logPut, logBytesPut } = counts;
  return {
    ...{ put, get, list, remove, bytesPut, bytesGot, logPut, logBytesPut },
    amplification: logBytesPut === 0 ? null : bytesPut / logBytesPut,
    ...{ cost, settled, costPerMillion: settled === 0 ? null : (cost / settled) * 1e6 },
  };
}
