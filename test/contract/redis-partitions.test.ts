/**
 * The store on Redis keeps the contract with four partitions, to the letter where all of a case lies in one of them:
 * another one from case to case. What a store does over several is tested beside src/store/partitioned and by the
 * histories.
 */
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { onePartition } from "../support/one-partition.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";
import { describeStoreContract } from "./contract-suite.ts";

const partitions = 4;
const shared = useSharedRedis();
let opened = 0;

describeStoreContract("Redis with all of a case in one of four partitions", ({ platform }) =>
  shared.prefixes.open(async (url, prefix) => {
    const partition = opened++ % partitions;
    const placement = { partitions, ofId: () => partition, ofName: () => partition, ofGates: partition };
    const store = await openRedisStore({ url, prefix, platform, clock: "platform", partitions, placement });
    return onePartition(store, partition);
  }),
);
