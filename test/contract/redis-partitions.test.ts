/**
 * The store on Redis keeps the contract with four partitions, to the letter where all of a case lies in one of them: another one from case to case.
 * What a store does over several is tested beside src/store/partitioned and by the histories.
 */
import { afterAll, beforeAll } from "vitest";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { redisUrl, RedisPrefixes } from "../support/redis-shared.ts";
import { describeStoreContract } from "./contract-suite.ts";

const partitions = 4;
let prefixes: RedisPrefixes;
let opened = 0;
beforeAll(async () => {
  prefixes = new RedisPrefixes(await redisUrl());
}, 180_000);
afterAll(() => prefixes.close());

describeStoreContract("Redis with all of a case in one of four partitions", ({ platform }) =>
  prefixes.open(async (url, prefix) => {
    const partition = opened++ % partitions;
    const placement = { partitions, ofId: () => partition, ofName: () => partition };
    const store = await openRedisStore({ url, prefix, platform, clock: "platform", partitions, placement });
    return { ...store, readFeed: (request) => store.readFeed({ partition, ...request }) };
  }),
);
