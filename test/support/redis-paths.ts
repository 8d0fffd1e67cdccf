/**
 * The same calls to two stores: one whose library has its fast paths, and one whose library has only the general ones.
 * What they answer and all keys that they leave are compared after each call.
 */
import { beforeAll, expect } from "vitest";
import type { GatePut } from "../../src/store/records.ts";
import type { Store } from "../../src/store/store.ts";
import { buildLibrary, libraryOf } from "../../src/stores/redis/library/library.ts";
import { createHeldPlatform } from "./virtual/held-platform.ts";
import { readKeys } from "./redis-keys.ts";
import { useOwnRedis } from "./servers/use-redis.ts";
import type { OwnRedis } from "./servers/use-redis.ts";

export interface Both {
  /** Runs the same calls on both stores, compares what they answer and what they leave, and gives the answer. */
  readonly same: <Answer>(run: (store: Store, isGeneral: boolean) => Promise<Answer>) => Promise<Answer>;
}

export interface BothPaths {
  readonly plain: OwnRedis;
  readonly general: OwnRedis;
  /** Under a prefix of its own each time. */
  readonly openBoth: (gates?: readonly GatePut[]) => Promise<Both>;
}

export function useBothPaths(): BothPaths {
  const plain = useOwnRedis();
  const general = useOwnRedis();
  let opened = 0;
  beforeAll(async () => {
    await general.admin.call("FUNCTION", "LOAD", libraryOf(buildLibrary({ paths: [] })));
  });
  return {
    plain,
    general,
    async openBoth(gates = []) {
      const prefix = `paths-${++opened}`;
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

/** All keys. Those who ended in one minute are listed in no order: what ends as a set is listed behind its call. */
async function readAll(admin: OwnRedis["admin"], prefix: string): Promise<unknown> {
  const entries = Object.entries(await readKeys(admin, prefix));
  return Object.fromEntries(
    entries.map(([key, held]) => [key, key.startsWith("end:") && Array.isArray(held) ? new Set(held) : held]),
  );
}
