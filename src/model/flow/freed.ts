/**
 * Where a blocked job is placed once it is freed, as a text that its submit gives and rule R4 reads:
 *
 *   <due>,<rankBase>,<rankSlope>,<ttlMs>      due: +milliseconds after it is freed, or @instant, which
 *                                             is a named one; no ttl: nothing
 */
import type { Due } from "../job/change.ts";

export interface Freed {
  readonly due: Due;
  readonly rankBase: number;
  readonly rankSlope: number;
  readonly ttlMs: number | null;
}

export function writeFreed({ due, rankBase, rankSlope, ttlMs }: Freed): string {
  const when = "at" in due ? `@${due.at}` : `+${due.inMs}`;
  return `${when},${rankBase},${rankSlope},${ttlMs ?? ""}`;
}

export function readFreed(text: string): Freed {
  const [when = "+0", rankBase, rankSlope, ttlMs = ""] = text.split(",");
  const time = Number(when.slice(1));
  return {
    due: when.startsWith("@") ? { at: time, isNamed: true } : { inMs: time },
    rankBase: Number(rankBase),
    rankSlope: Number(rankSlope),
    ttlMs: ttlMs === "" ? null : Number(ttlMs),
  };
}
