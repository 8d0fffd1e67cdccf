/**
 * The same calls to two stores: one whose library has its plain roads, and one whose library has only the general ones.
 * What they answer and all keys that they leave are compared after each call.
 */
import { beforeAll, expect } from "vitest";
import type { GatePut } from "../../src/store/records.ts";
import type { Store } from "../../src/store/store.ts";
import { readArgument } from "../../src/stores/redis/argument-text.ts";
import { buildLibrary, libraryOf } from "../../src/stores/redis/library.ts";
import { createHeldPlatform } from "./held-platform.ts";
import { readKeys } from "./redis-keys.ts";
import { useOwnRedis } from "./use-redis.ts";
import type { OwnRedis } from "./use-redis.ts";

export interface Both {
  /** Runs the same calls on both stores, compares what they answer and what they leave, and gives the answer. */
  readonly same: <Answer>(run: (store: Store, isGeneral: boolean) => Promise<Answer>) => Promise<Answer>;
}

export interface BothRoads {
  readonly plain: OwnRedis;
  readonly general: OwnRedis;
  /** Under a prefix of its own each time. */
  readonly openBoth: (gates?: readonly GatePut[]) => Promise<Both>;
}

export function useBothRoads(): BothRoads {
  const plain = useOwnRedis();
  const general = useOwnRedis();
  let opened = 0;
  beforeAll(async () => {
    await general.admin.call("FUNCTION", "LOAD", libraryOf(buildLibrary({ hasPlainRoads: false })));
  });
  return {
    plain,
    general,
    async openBoth(gates = []) {
      const prefix = `roads-${++opened}`;
      const platform = createHeldPlatform();
      const options = { platform, clock: "platform", prefix } as const;
      const [one, other] = [await plain.open(options), await general.open(options)];
      if (gates.length > 0) for (const store of [one, other]) await store.putGates(gates);
      return {
        async same(run) {
          platform.advance(7);
          const answer = await run(one, false);
          expect(await run(other, true)).toEqual(answer);
          expect(await readAll(general.admin, prefix)).toEqual(await readAll(plain.admin, prefix));
          return answer;
        },
      };
    },
  };
}

/**
 * All keys. Those who ended in one minute are listed in no order: what ends as a set is listed behind its call. How
 * many of its jobs a lane shows, and whether one that its own cap keeps out is parked, is left to the roads: here each
 * shows one, and those lanes are open. The audit says whether what a lane shows is right.
 */
async function readAll(admin: OwnRedis["admin"], prefix: string): Promise<unknown> {
  const keys = await readKeys(admin, prefix);
  const entries = Object.entries(showFirsts(keys));
  return Object.fromEntries(
    entries.map(([key, held]) => [key, key.startsWith("end:") && Array.isArray(held) ? new Set(held) : held]),
  );
}

type Keys = Readonly<Record<string, unknown>>;
type Scores = Record<string, string>;

/** Members and scores of a sorted set, as they were read in turns. */
function scoresOf(flat: unknown): Scores {
  const texts = (flat ?? []) as readonly string[];
  return Object.fromEntries(texts.flatMap((text, at) => (at % 2 === 0 ? [[text, texts[at + 1]!]] : [])));
}

function showFirsts(keys: Keys): Keys {
  const isOpen = (key: string): boolean => key.startsWith("open:");
  const opens = Object.fromEntries(
    Object.entries(keys).flatMap(([key, flat]) => (isOpen(key) ? [[key, scoresOf(flat)]] : [])),
  );
  const [line, parked] = [scoresOf(keys["line"]), scoresOf(keys["parked"])];
  const records = Object.entries((keys["lane"] ?? {}) as Record<string, string>);
  const lane = Object.fromEntries(
    records.map(([key, text]) => [
      key,
      showFirst(key, openUp(key, readArgument("lane", text), parked, opens), line, opens),
    ]),
  );
  const isEmpty = (scores: Scores): boolean => Object.keys(scores).length === 0;
  const held = Object.entries({ line, parked, ...opens }).filter(([, scores]) => !isEmpty(scores));
  const others = Object.entries(keys).filter(([key]) => !isOpen(key) && !["line", "parked"].includes(key));
  return { ...Object.fromEntries([...others, ...held]), lane };
}

/** A lane that its own cap keeps out is parked, or was passed over: here it is open. */
function openUp(lane: string, record: LaneRecord, parked: Scores, opens: Record<string, Scores>): LaneRecord {
  const { place, handle, route, turn } = record;
  const entry = Object.keys(parked).find(
    (each) => each.startsWith("g:") && each.endsWith(`${handle}\x1f${lane}`),
  );
  if (entry === undefined || record.parked.includes("\x1e")) return record;
  const rank = Number(place.slice(1)) - (place.startsWith("0") ? Number.MAX_SAFE_INTEGER + 1 : 0);
  delete parked[entry];
  (opens[`open:${route}`] ??= {})[`${handle}\x1f${lane}`] = turn === "" ? String(rank) : turn;
  return { ...record, parked: "" };
}

type LaneRecord = ReturnType<typeof readArgument<"lane">>;

/** Answers what is left of the record. */
function showFirst(
  lane: string,
  record: LaneRecord,
  line: Scores,
  opens: Readonly<Record<string, Scores>>,
): readonly string[] {
  const { shown, step, handle, place, route, turn, parked, speaks } = record;
  const last = `${lane}\x1f${place}${handle}\x1f${route}`;
  if (shown === "" || shown === "1") {
    // The only job of a lane stands in its record.
    if (record.alone !== "") line[last] = "0";
    return [handle, place, route, turn, parked, speaks];
  }
  const open = opens[`open:${route}`] ?? {};
  const entries = Object.keys(line)
    .filter((entry) => entry.startsWith(`${lane}\x1f`) && entry <= last)
    .toSorted();
  const left = entries.flatMap((entry) => {
    const [, at = "", job = ""] = /\x1f(\d{17})([a-p]\d+)\x1f/.exec(entry) ?? [];
    const end = `${job}\x1f${lane}`;
    const score = open[end] ?? open[`${end}\x1e${step}`];
    for (const member of [end, `${end}\x1e${step}`]) delete open[member];
    // Those that were taken are still in the line.
    if (score === undefined) delete line[entry];
    return score === undefined ? [] : [{ place: at, handle: job, score }];
  });
  const first = left[0]!;
  open[`${first.handle}\x1f${lane}`] = first.score;
  return [first.handle, first.place, route, turn === "" ? turn : first.score, parked, speaks];
}
