/** The store on Redis keeps the contract: an empty prefix for each case. */
import { afterAll, beforeAll } from "vitest";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { redisUrl, RedisPrefixes } from "../support/redis-shared.ts";
import { describeStoreContract } from "./contract-suite.ts";

let prefixes: RedisPrefixes;
beforeAll(async () => {
  prefixes = new RedisPrefixes(await redisUrl());
}, 180_000);
afterAll(() => prefixes.close());

describeStoreContract("Redis", ({ platform }) =>
  prefixes.open((url, prefix) => openRedisStore({ url, prefix, platform, clock: "platform" })),
);
