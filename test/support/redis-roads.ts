/**
 * The same calls to two stores: one whose library has its plain roads, and one whose library has only the general ones. What
 * they answer and all keys that they leave are compared after each call.
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
 * All keys. Those who ended in one minute are listed in no order: what ends as a set is listed behind its call. How many of its
 * jobs a lane has in its record, and how many of these it shows, is left to the roads: all are put where they stand if it is none
 * and one. The audit says whether what a lane has is right.
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
  const line = scoresOf(keys["line"]);
  const records = Object.entries((keys["lane"] ?? {}) as Record<string, string>);
  const lane = Object.fromEntries(
    records.map(([key, text]) => [key, showFirst(key, readArgument("lane", text), line, opens)]),
  );
  return { ...keys, lane, line, ...opens };
}

/** Answers what is left of the record. */
function showFirst(
  lane: string,
  record: ReturnType<typeof readArgument<"lane">>,
  line: Scores,
  opens: Readonly<Record<string, Scores>>,
): readonly string[] {
  const { shown, step, route, behind, turn, parked, speaks } = record;
  const known = [...behind.matchAll(/(\d{17})([a-p]\d+)\x1e/g)].map(([, place = "", handle = ""]) => ({
    place,
    handle,
  }));
  const jobs = [{ place: record.place, handle: record.handle }, ...known];
  const count = shown === "" ? 1 : shown.charCodeAt(0) - "0".charCodeAt(0);
  const open = opens[`open:${route}`] ?? {};
  const endOf = (at: number): string => `${jobs[at]!.handle}\x1f${lane}`;
  const members = jobs.slice(0, count).map((_, at) => endOf(at) + (at < count - 1 ? `\x1e${step}` : ""));
  const first = count === 1 ? 0 : members.findIndex((member) => open[member] !== undefined);
  const score = open[members[first]!] ?? "";
  if (count > 1) {
    for (const member of members) delete open[member];
    open[endOf(first)] = score;
  }
  if (behind !== "")
    for (const { place, handle } of jobs.slice(first)) line[`${lane}\x1f${place}${handle}\x1f${route}`] = "0";
  const { place, handle } = jobs[first]!;
  return [handle, place, route, count > 1 && turn !== "" ? score : turn, parked, speaks];
}
