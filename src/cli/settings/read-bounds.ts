/**
 * Bounds of a queue or a limit as options: `--concurrency 5`, `--rate 100/1m`, `--burst 10`; `none` takes one away.
 * With `--key-` before them they are those of each key of a limit.
 */
import type { Rate } from "../../model/limits/limit.ts";
import { durationText } from "../../model/duration.ts";
import { quote, readWhole, wrong } from "../arguments/read-args.ts";

export const boundOptions = {
  concurrency: { value: "N", meaning: "how many run at once, over all processes; none for any number" },
  rate: { value: "N/TIME", meaning: "how many start in a time, such as 100/1m; none for any number" },
  burst: {
    value: "N",
    meaning: "with --rate: how many may start at once after a quiet time; N of the rate by default",
  },
  sliding: {
    meaning: "with --rate: never more than N in any such time; bursts of 1 unless --burst says more",
  },
} as const;

export const perKeyOptions = {
  "key-concurrency": { value: "N", meaning: "how many of each key run at once; none for any number" },
  "key-rate": { value: "N/TIME", meaning: "how many of each key start in a time; none for any number" },
  "key-burst": { value: "N", meaning: "with --key-rate, as --burst" },
  "key-sliding": { meaning: "with --key-rate, as --sliding" },
} as const;

export interface Bounds {
  concurrency?: number | null;
  rate?: { max: number; per: string; burst?: number; window?: "sliding" } | null;
}

const countMax = 1_000_000_000;

export function readPerKey(options: ReadonlyMap<string, string>): { perKey?: Bounds } {
  const perKey = readBounds(options, "key-");
  return Object.keys(perKey).length === 0 ? {} : { perKey };
}

export function readBounds(options: ReadonlyMap<string, string>, prefix: "" | "key-" = ""): Bounds {
  const burst = readWhole(options, `${prefix}burst`, [1, countMax]);
  const isFree = options.get(`${prefix}concurrency`) === "none";
  const concurrency = isFree ? null : readWhole(options, `${prefix}concurrency`, [1, countMax]);
  const rate = readRate(options, `${prefix}rate`);
  for (const name of ["burst", "sliding"])
    if (options.has(`${prefix}${name}`) && (rate === undefined || rate === null))
      throw wrong(`--${prefix}${name} needs a --${prefix}rate`);
  const more = {
    ...(burst === undefined ? {} : { burst }),
    ...(options.has(`${prefix}sliding`) ? { window: "sliding" as const } : {}),
  };
  return {
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(rate === undefined ? {} : { rate: rate === null ? null : { ...rate, ...more } }),
  };
}

function readRate(
  options: ReadonlyMap<string, string>,
  option: string,
): { max: number; per: string } | null | undefined {
  const text = options.get(option);
  if (text === undefined) return undefined;
  if (text === "none") return null;
  const [, max, per] = /^(\d{1,9})\/(.+)$/.exec(text) ?? [];
  if (max === undefined || per === undefined)
    throw wrong(`--${option} must be a number and a time such as 100/1m, not ${quote(text)}`);
  return { max: Number(max), per };
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
