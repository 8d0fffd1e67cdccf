/**
 * What the gates of a run said, and when: the puts among the calls, by partition and key. A gate's puts have one order,
 * that of their versions, so for every call it is known which of them may have been in force; where calls met at the
 * store that may be more than one.
 */
import { gateOfLimit } from "../../src/model/routing/lane.ts";
import type { GatePut } from "../../src/store/records.ts";
import type { Operation, StoreCall } from "./history.ts";
import { isBefore, pushTo } from "./ledger.ts";

export type Bounds = Pick<GatePut, "cap" | "rate" | "perKey">;

interface Put extends Bounds {
  /** Null where nobody knows whether it was written. */
  readonly version: number | null;
  readonly call: StoreCall;
}

const neverPut: Bounds = { cap: null, rate: null };

/** A gate of one partition: each partition of a store has its own share of a queue's. */
export const scopeOf = (key: string, call: StoreCall | undefined): string => `${call?.partition ?? 0}/${key}`;

export class GateHistory {
  readonly #puts = new Map<string, Put[]>();

  constructor(operations: readonly Operation[]) {
    for (const call of operations) {
      if (call.kind !== "putGates" || call.reachedUs === null) continue;
      for (const [index, { key, cap, rate, perKey }] of call.request.entries()) {
        const answer = call.answer?.[index];
        const isWritten = answer?.kind === "ok";
        if (isWritten || (answer === undefined && call.seen === "unknown"))
          pushTo(this.#puts, scopeOf(key, call), {
            ...{ cap, rate, perKey },
            version: answer?.version ?? null,
            call,
          });
      }
    }
  }

  /** All that may have been in force when the call was served, oldest first; null where nobody can tell. */
  inForce(key: string, call: StoreCall): readonly Bounds[] | null {
    const puts = this.#puts.get(scopeOf(key, call)) ?? [];
    let oldest = 0;
    let newest = Infinity;
    for (const { version, call: put } of puts) {
      if (version === null) {
        if (!isBefore(call, put)) return null;
      } else if (isBefore(put, call)) oldest = Math.max(oldest, version);
      else if (isBefore(call, put)) newest = Math.min(newest, version - 1);
    }
    const between = puts
      .filter(({ version }) => version !== null && version >= oldest && version <= newest)
      .toSorted((one, other) => (one.version as number) - (other.version as number));
    return oldest === 0 ? [neverPut, ...between] : between;
  }

  /** The same of one key of a limit: what was put of that very key, else what the limit says of each. */
  ofKey(key: string, call: StoreCall): readonly Bounds[] | null {
    const [ofKey, ofLimit] = [this.inForce(key, call), this.inForce(gateOfLimit(key), call)];
    if (ofKey === null || ofLimit === null) return null;
    return ofKey.flatMap((own) =>
      ofLimit.map(({ perKey }) => ({
        cap: own.cap ?? perKey?.cap ?? null,
        rate: own.rate ?? perKey?.rate ?? null,
      })),
    );
  }
}
