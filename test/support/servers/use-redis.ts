/**
 * Redis for a test file, with the hooks that start and end it: a server of its own where the tests change its settings,
 * flush, kill or count all its keys, else prefixes on the one that all files share. A store that was opened here is
 * closed after its case, and a server ends after its last one.
 */
import { Redis } from "ioredis";
import { beforeAll, beforeEach } from "vitest";
import { nodePlatform } from "../../../src/platform/node-platform.ts";
import type { Store } from "../../../src/store/store.ts";
import { openRedisStore } from "../../../src/stores/redis/redis-store.ts";
import type { RedisOptions } from "../../../src/stores/redis/redis-store.ts";
import { closeAfterEach } from "../close-after-each.ts";
import { startRedis } from "./redis-server.ts";
import type { RedisServer, RedisServerOptions } from "./redis-server.ts";
import { redisUrl, RedisPrefixes } from "./redis-shared.ts";

export interface OwnRedis {
  readonly server: RedisServer;
  /** Past every store; it waits for a server that is being restarted. */
  readonly admin: Redis;
  /** Another one for each case. */
  readonly prefix: string;
  /** A store under the case's prefix unless a prefix is given. */
  readonly open: (given?: Partial<RedisOptions>) => Promise<Store>;
  /** For what the case opened by itself; it is closed before the stores that were opened earlier. */
  readonly closeLater: ReturnType<typeof closeAfterEach>;
}

export function useOwnRedis(options: RedisServerOptions = {}): OwnRedis {
  let server: RedisServer;
  let admin: Redis;
  let cases = 0;
  beforeAll(async () => {
    server = await startRedis(options);
    admin = connectAdmin(server);
    return async () => {
      admin.disconnect();
      await server.stop();
    };
  });
  beforeEach(() => void (cases += 1));
  const closeLater = closeAfterEach();
  const prefix = (): string => `case-${cases}`;
  return {
    get server() {
      return server;
    },
    get admin() {
      return admin;
    },
    get prefix() {
      return prefix();
    },
    async open(given = {}) {
      const place = given.client === undefined ? { url: server.url } : {};
      const wanted = { ...place, platform: nodePlatform, prefix: prefix(), ...given };
      return closeLater(await openRedisStore(wanted));
    },
    closeLater,
  };
}

export function connectAdmin({ url }: Pick<RedisServer, "url">): Redis {
  const admin = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 50 });
  admin.on("error", () => undefined);
  return admin;
}

export function useSharedRedis(): { readonly prefixes: RedisPrefixes } {
  let prefixes: RedisPrefixes;
  beforeAll(async () => {
    prefixes = new RedisPrefixes(await redisUrl());
    return () => prefixes.close();
  });
  return {
    get prefixes() {
      return prefixes;
    },
  };
}
