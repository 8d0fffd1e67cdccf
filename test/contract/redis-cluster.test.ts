/** The store keeps the contract on a real cluster of three primaries and three replicas, and lives through a slot's move. */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll } from "vitest";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { startRedisCluster } from "../support/redis-cluster.ts";
import type { RedisCluster } from "../support/redis-cluster.ts";
import { describeStoreContract } from "./contract-suite.ts";

const partitions = 4;
let cluster: RedisCluster;
let opened = 0;
beforeAll(async () => {
  cluster = await startRedisCluster();
}, 180_000);
afterAll(() => cluster.stop());

describeStoreContract(
  "A Redis cluster with all of a case in one of four partitions",
  async ({ platform }) => {
    const partition = opened++ % partitions;
    const placement = { partitions, ofId: () => partition, ofName: () => partition };
    const prefix = randomBytes(6).toString("hex");
    const { url } = cluster;
    const store = await openRedisStore({ url, prefix, platform, clock: "platform", partitions, placement });
    return { ...store, readFeed: (request) => store.readFeed({ partition, ...request }) };
  },
);
