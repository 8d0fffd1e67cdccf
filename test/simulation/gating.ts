/**
 * What holds jobs back in a run, drawn per seed: a few limits with small caps, some with a rate, and capabilities that
 * some nodes offer; which of them a job has; and how often operators change them. Every draw is from a stream of its
 * own, so that a seed without any of it means what it meant before.
 */
import { limit } from "../../src/engine/limits/limit-definition.ts";
import type { EnqueueOptions } from "../../src/engine/submit/job-options.ts";
import type { Limit } from "../../src/engine/limits/limit-definition.ts";
import { weightMaxOf } from "../../src/model/limits/limit.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { Throttled } from "../../src/worker/control.ts";

export interface Gating {
  /** How many of the jobs have limits, and as many capabilities; 0 for none. */
  readonly share: number;
  readonly limits: readonly Limit[];
  readonly capabilities: readonly string[];
  /** How often operators pause, resume, edit and throttle instead of enqueueing. */
  readonly acting: number;
}

const none: Gating = { share: 0, limits: [], capabilities: [], acting: 0 };

/** None for every seed of seeds.ts, so that those mean what they meant. */
export function drawGating(random: SeededRandom): Gating {
  const share = random.pick([0.3, 0.6, 0.3, 0, 0.6, 0.3, 0, 0, 0, 0]);
  if (share === 0) return none;
  const limits = Array.from({ length: random.whole(1, 3) }, (_, number) =>
    drawLimit(`limit-${number}`, random),
  );
  return {
    share,
    limits,
    capabilities: random.pick([[], ["gpu"], ["eu", "gpu"]]),
    acting: random.pick([0, 0.1, 0.3]),
  };
}

export const drawCap = (random: SeededRandom): number => random.whole(1, 4);

export const drawRate = (random: SeededRandom): { max: number; per: number; burst: number } => ({
  max: random.whole(1, 20),
  per: random.pick([100, 1000]),
  burst: random.whole(1, 5),
});

function drawLimit(name: string, random: SeededRandom): Limit {
  const [cap, rate] = [drawCap(random), drawRate(random)];
  const draw = random.next();
  return limit(name, draw < 0.6 ? { concurrency: cap } : draw < 0.8 ? { rate } : { concurrency: cap, rate });
}

/** The gates of one job: one or two limits, mostly of weight 1, and what its worker must offer. */
export function drawGates(
  { share, limits, capabilities }: Gating,
  random: SeededRandom,
): Pick<EnqueueOptions, "limits" | "requires" | "throttlesMax"> {
  const first = random.whole(0, limits.length - 1);
  const used = limits.filter((_, number) => number === first || random.chance(0.2));
  const uses = used.map((each) => {
    const weightMax = Math.min(4, weightMaxOf(each.settings));
    return each.use({ weight: random.chance(0.7) ? 1 : random.whole(1, weightMax) });
  });
  return {
    ...(random.chance(share) ? { limits: uses } : {}),
    ...(random.chance(share) && capabilities.length > 0
      ? { requires: capabilities.filter(() => random.chance(0.6)) }
      : {}),
    ...(random.chance(share / 4) ? { throttlesMax: random.whole(0, 2) } : {}),
  };
}

/** What a handler that met a 429 throws; null for none. Its job need not use the limit. */
export function drawThrottle({ limits }: Gating, random: SeededRandom): Throttled | null {
  if (limits.length === 0 || !random.chance(0.1)) return null;
  const throttled = random.pick(limits);
  const options = random.chance(0.7) ? { retryAfter: random.whole(0, 3000) } : {};
  return new Throttled(random.chance(0.5) ? throttled : throttled.name, options);
}

export function describeGating({ share, limits, capabilities }: Gating): string {
  if (share === 0) return "";
  const texts = limits.map(({ settings: { concurrency, rate } }) =>
    [concurrency ?? "any", ...(rate === null ? [] : [`${rate.max}/${rate.perMs}ms+${rate.burst}`])].join(" "),
  );
  return `, limits ${texts.join(", ")} and ${capabilities.join("+") || "nothing"} for ${share}`;
}
