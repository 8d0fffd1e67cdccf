/**
 * Groups and limits by key, drawn per seed: what the groups of a run are like, the limits that bound keys, and the few
 * keys that all of them share, so that jobs wait for each other; which of them a job has; and how often operators
 * change them. Every draw is from a stream of its own, so that a seed without any of it means what it meant before.
 */
import type { GroupOptions } from "../../src/engine/submit/group.ts";
import type { EnqueueOptions } from "../../src/engine/submit/job-options.ts";
import { limit } from "../../src/engine/limits/limit-definition.ts";
import type { Limit, LimitUse } from "../../src/engine/limits/limit-definition.ts";
import { isBoundedInAll, weightMaxOf } from "../../src/model/limits/limit.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { Throttled } from "../../src/worker/control.ts";
import { drawCap, drawRate } from "./gating.ts";

type Group = Omit<GroupOptions, "key">;

export interface Laning {
  /** How many of the jobs have a group, and as many keys of limits; 0 for none. */
  readonly share: number;
  /** What a group of the run is like; jobs of one key may differ in it. */
  readonly groups: readonly Group[];
  /** Limits that bound keys, some of them all keys together as well. */
  readonly limits: readonly Limit[];
  readonly keys: readonly string[];
  /** Definitions have groups and keys too, which they compute from the input. */
  readonly isDefined: boolean;
  /** How often operators edit, throttle and reset limits and keys of them instead of enqueueing. */
  readonly acting: number;
}

const none: Laning = { share: 0, groups: [], limits: [], keys: [], isDefined: false, acting: 0 };

/** For half of the seeds, and none for every seed of seeds.ts, so that those mean what they meant. */
export function drawLaning(random: SeededRandom): Laning {
  const share = random.pick([0.5, 0, 0, 0, 0.8, 0, 0.5, 0, 0.3, 0.8]);
  if (share === 0) return none;
  return {
    share,
    groups: Array.from({ length: random.pick([1, 1, 2, 3]) }, (_, number) => ({
      ...drawHold(random.fork(`hold ${number}`), drawGroup(random)),
    })),
    limits: Array.from({ length: random.pick([0, 1, 1, 2]) }, (_, number) => drawKeyLimit(number, random)),
    keys: Array.from({ length: random.whole(1, 5) }, (_, number) => `t${number}`),
    isDefined: random.chance(0.5),
    acting: random.pick([0, 0.1, 0.3]),
  };
}

function drawGroup(random: SeededRandom): Group {
  const draw = random.next();
  const weight = random.chance(0.5) ? { weight: random.whole(1, 3) } : {};
  const fair = random.chance(0.3) ? { fair: true, ...weight } : {};
  if (draw < 0.25) return weight;
  if (draw < 0.6) return { concurrency: 1, ...fair, ...(random.chance(0.3) ? { holdsOnRetry: false } : {}) };
  return { concurrency: random.whole(2, 4), ...fair, ...(random.chance(0.5) ? { holdsOnRetry: true } : {}) };
}

/** Groups that their failed jobs hold: operators let them go on once the world has healed. */
const drawHold = (random: SeededRandom, group: Group): Group =>
  group.concurrency !== undefined && random.chance(0.3) ? { ...group, holdsOnFailure: true } : group;

function drawKeyLimit(number: number, random: SeededRandom): Limit {
  const [cap, rate] = [drawCap(random), drawRate(random)];
  const draw = random.next();
  const perKey = draw < 0.6 ? { concurrency: cap } : draw < 0.8 ? { rate } : { concurrency: cap, rate };
  return limit(`keyed-${number}`, {
    perKey,
    ...(random.chance(0.3) ? { concurrency: cap + random.whole(0, 3) } : {}),
  });
}

/** The key of a definition's jobs: inputs are numbered. */
export const keyOfInput = ({ keys }: Laning, { key }: { readonly key: string }): string =>
  keys[Number(key.slice(1)) % keys.length] as string;

type LaneOptions = Pick<EnqueueOptions, "group" | "limits" | "id" | "unique">;

/**
 * The group and the keys of one job, on top of the options that it has. What has to lie in one partition is given names
 * that do: a key lies elsewhere than a limit over all keys, and than most ids.
 *
 * @param key the one that all jobs of an enqueue have which must lie together; null: each has its own.
 */
export function drawLane(
  laning: Laning,
  given: LaneOptions,
  { key: shared, random }: { readonly key: string | null; readonly random: SeededRandom },
): LaneOptions {
  if (laning.share === 0) return given;
  const key = shared ?? random.pick(laning.keys);
  const isPlaced = shared !== null;
  const isGrouped = random.chance(laning.share);
  const group = drawGroupOf(laning, key, random);
  const uses = random.chance(laning.share) ? drawUses(laning, key, random) : [];
  const mayBind = typeof group === "string" || group.concurrency !== undefined;
  const isBound = (isGrouped && mayBind) || uses.length > 0;
  const isLeft = !isPlaced && random.chance(0.3);
  const limits = !isPlaced
    ? [...(given.limits ?? []), ...uses]
    : isBound
      ? uses.filter(({ limit: { settings } }) => !isBoundedInAll(settings))
      : (given.limits ?? []);
  return {
    ...(isPlaced && isBound ? placeAt(key, given) : given),
    ...(isGrouped ? { group } : isLeft ? {} : { group: null }),
    ...(isLeft ? {} : { limits }),
  };
}

/** Now and then the rest of the group is as the definition says; without one it takes turns. */
const drawGroupOf = ({ groups }: Laning, key: string, random: SeededRandom): string | GroupOptions =>
  random.chance(0.2) ? key : { ...random.pick(groups), key };

function drawUses({ limits }: Laning, key: string, random: SeededRandom): LimitUse[] {
  return limits
    .filter(() => random.chance(0.7))
    .map((each) => {
      const { settings } = each;
      const weightMax = Math.min(3, weightMaxOf(settings), weightMaxOf(settings.perKey ?? settings));
      return each.use({ key, weight: random.chance(0.7) ? 1 : random.whole(1, weightMax) });
    });
}

/** Of a name with text in braces only that text says where it lies. */
function placeAt(key: string, { id, unique, ...rest }: LaneOptions): LaneOptions {
  return {
    ...rest,
    ...(id === undefined ? {} : { id: `${id}-{${key}}` }),
    ...(typeof unique === "object" ? { unique: { ...unique, key: `${unique.key}-{${key}}` } } : {}),
  };
}

/** What a handler that met a 429 throws; null for none. Its job need not take from the key. */
export function drawKeyThrottle({ limits, keys }: Laning, random: SeededRandom): Throttled | null {
  if (limits.length === 0 || !random.chance(0.1)) return null;
  const throttled = random.pick(limits);
  const retryAfter = random.chance(0.7) ? { retryAfter: random.whole(0, 3000) } : {};
  const key = random.pick([undefined, undefined, random.pick(keys), null]);
  return new Throttled(throttled, { ...retryAfter, ...(key === undefined ? {} : { key }) });
}

export function describeLaning({ share, groups, limits, keys }: Laning): string {
  if (share === 0) return "";
  const texts = limits.map(({ settings }) => JSON.stringify(settings));
  return `, groups ${JSON.stringify(groups)} and keys of ${texts.join(" ") || "nothing"} for ${share}, ${keys.length} keys`;
}
