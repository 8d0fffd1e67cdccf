/**
 * Groups and keys of limits in a run, drawn per seed: which of them a job has. Every draw is from a stream of its own, so
 * that a seed without any of it means what it meant before. Keys are few, so that lines form.
 */
import type { EnqueueOptions } from "../../src/engine/job-options.ts";
import { limit } from "../../src/engine/limit.ts";
import type { Limit } from "../../src/engine/limit.ts";
import { readKeyUse } from "../../src/model/lane.ts";
import { parsePolicy } from "../../src/model/job-policy.ts";
import type { NewJob } from "../../src/store/records.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import type { Lane } from "../history/history.ts";

export interface Laning {
  /** How many of the jobs have a group, and how many take from a key; 0 for none. */
  readonly share: number;
  readonly keys: number;
  readonly limit: Limit;
}

/** None for every seed of seeds.ts, so that those mean what they meant. */
const shares = [0.3, 0, 0, 0, 0.6, 0, 0.3, 0, 0.6, 0.3];

export function drawLaning(random: SeededRandom): Laning {
  const share = random.pick(shares);
  const keys = random.whole(1, 3);
  const rate = { max: random.whole(5, 20), per: 100, burst: random.whole(1, 5) };
  const concurrency = random.whole(1, 3);
  const perKey = random.pick([{ concurrency }, { rate }, { concurrency, rate }]);
  return { share, keys, limit: limit("keyed", { perKey }) };
}

/** Each kind of groups has keys of its own: a group with two caps would be hard to judge. */
const groups = [
  { kind: "fifo", options: { concurrency: 1 } },
  { kind: "loose", options: { concurrency: 1, holdsOnRetry: false } },
  { kind: "two", options: { concurrency: 2 } },
  { kind: "fair", options: {} },
  { kind: "both", options: { concurrency: 1, fair: true } },
] as const;

/** @param limits that the job has beside. */
export function drawLane(
  { share, keys, limit: keyed }: Laning,
  random: SeededRandom,
  limits: EnqueueOptions["limits"] = [],
): Pick<EnqueueOptions, "limits" | "group"> {
  if (share === 0) return {};
  // The text in braces is all that decides where a key lies, so that a group and a limit may lie together.
  const key = `{${random.whole(1, keys)}}`;
  const { kind, options } = random.pick(groups);
  const takes = random.fork("takes").chance(share);
  return {
    ...(random.chance(share) ? { group: { key: `${kind}${key}`, ...options } } : {}),
    ...(takes ? { limits: [...limits, keyed.use({ key })] } : {}),
  };
}

/** What a job's group asks for, by what was submitted. */
export function laneOfJob({ laneKey, laneGates, policy }: NewJob): Lane | null {
  const own = (laneGates ?? []).map(readKeyUse).find(({ cap }) => cap !== null);
  if (laneKey === undefined || own === undefined) return null;
  return { key: laneKey, cap: own.cap ?? Infinity, isFifo: parsePolicy(policy).holdsGroup === true };
}

export function describeLaning({ share, keys }: Laning): string {
  return share === 0 ? "" : `, ${keys} keys for ${share}`;
}
