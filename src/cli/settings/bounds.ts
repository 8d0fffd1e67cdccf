/**
 * Bounds of a queue or a limit as options: `--concurrency 5`, `--rate 100/1m`, `--burst 10`; `none` takes one away.
 * With `--key-` before them they are those of each key of a limit.
 */
import type { Rate } from "../../model/limits/limit.ts";
import { durationMs, durationText } from "../../model/duration.ts";
import { flag, orNone, whole } from "../arguments/option-kinds.ts";
import type { Option, ValuesOf } from "../arguments/option-kinds.ts";
import { quote, wrong } from "../arguments/wrong.ts";

const countMax = 1_000_000_000;

export const boundOptions = {
  concurrency: count("how many run at once, over all processes; none for any number"),
  rate: rate("how many start in a time, such as 100/1m; none for any number"),
  burst: whole(
    "N",
    "with --rate: how many may start at once after a quiet time; N of the rate by default",
    1,
    countMax,
  ),
  sliding: flag("with --rate: never more than N in any such time; bursts of 1 unless --burst says more"),
};

export const keyBoundOptions = {
  "key-concurrency": count("how many of each key run at once; none for any number"),
  "key-rate": rate("how many of each key start in a time; none for any number"),
  "key-burst": whole("N", "with --key-rate, as --burst", 1, countMax),
  "key-sliding": flag("with --key-rate, as --sliding"),
};

interface Bounds {
  concurrency?: number | null;
  rate?: { max: number; per: number; burst?: number; window?: "sliding" } | null;
}

export function keyBoundsOf(options: ValuesOf<typeof keyBoundOptions>): Bounds {
  const named = Object.entries(options).filter(([name]) => name.startsWith("key-"));
  return boundsOf(Object.fromEntries(named.map(([name, value]) => [name.slice(4), value])), "key-");
}

/** @param prefix what the options begin with, for the error. */
export function boundsOf(
  { concurrency, rate: given, burst, sliding }: ValuesOf<typeof boundOptions>,
  prefix: "" | "key-" = "",
): Bounds {
  for (const [name, value] of Object.entries({ burst, sliding }))
    if (value !== undefined && !given) throw wrong(`--${prefix}${name} needs a --${prefix}rate`);
  const more = {
    ...(burst === undefined ? {} : { burst }),
    ...(sliding ? { window: "sliding" as const } : {}),
  };
  return {
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(given === undefined ? {} : { rate: given === null ? null : { ...given, ...more } }),
  };
}

/** A number of jobs, or "none" for any number. */
export function count(meaning: string): Option<number | null> {
  return orNone(whole("N", meaning, 1, countMax));
}

function rate(meaning: string): Option<{ max: number; per: number } | null> {
  const read = (text: string, name: string): { max: number; per: number } => {
    const [, max, per] = /^(\d{1,9})\/(.+)$/.exec(text) ?? [];
    if (max !== undefined && per !== undefined) return { max: Number(max), per: durationMs(per, name) };
    throw wrong(`${name} must be a number and a time such as 100/1m, not ${quote(text)}`);
  };
  return orNone({ value: "N/TIME", meaning, read });
}

export function formatBound(count: number | null): string {
  return count === null ? "any" : String(count);
}

export function formatRate(rate: Rate | null): string {
  if (rate === null) return "any";
  const { max, perMs, burst, window } = rate;
  const usual = window === undefined ? max : 1;
  const kind = window === undefined ? "" : ` ${window}`;
  return `${max}/${durationText(perMs)}${kind}${burst === usual ? "" : ` burst ${burst}`}`;
}
