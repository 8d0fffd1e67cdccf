/**
 * The simulation on a real Redis with two clients, as two machines would have: few seeds, half of them with one call at
 * a time, half with calls that meet at the server. MILLRACE_SEED and MILLRACE_SEEDS as in run-seed.ts.
 */
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";
import { describeFlowCrashes } from "./flow-crash-suite.ts";
import { describeRealSimulation } from "./real-suite.ts";
import type { RealSubject } from "./real-suite.ts";
import { describeRunCrashes } from "./run-crash-suite.ts";

const shared = useSharedRedis();

const open: RealSubject["open"] = async (platform) => {
  let prefix = "";
  const openUnder = (url: string): ReturnType<typeof openRedisStore> =>
    openRedisStore({ url, prefix, platform, clock: "platform" });
  const first = await shared.prefixes.open((url, given) => {
    prefix = given;
    return openUnder(url);
  });
  return [first, await openUnder(shared.prefixes.url)];
};

describeRealSimulation({ title: "Redis", seeds: 7, open });
describeFlowCrashes({ title: "Redis", open, crashes: 4 });
describeRunCrashes({ title: "Redis", open, crashes: 1 });
