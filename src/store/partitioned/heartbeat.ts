/**
 * The heartbeat over partitions. The registry lies in one of them, and only that one is asked: it answers which routes
 * have ready jobs there. The answer adds the routes for which a claim would ask another partition.
 */
import type { HeartbeatAnswer, HeartbeatRequest } from "../operations.ts";
import type { Claims } from "./claim.ts";
import { reach } from "./partition.ts";
import type { Partition, PartitionedCalls } from "./partition.ts";

export async function heartbeat(
  calls: PartitionedCalls,
  claims: Claims,
  home: Partition,
  request: HeartbeatRequest,
): Promise<HeartbeatAnswer> {
  const { cache } = home;
  const { heard } = cache;
  const sentMs = calls.nowMs();
  const reached = await reach(home, {
    name: "heartbeat",
    call: (store) => store.heartbeat(request),
    timeout: calls.timeout.short,
  });
  const end = reached.kind === "silent" ? await reached.later : reached;
  if (end.kind === "failed") throw end.error;
  const { answer } = end as Extract<typeof end, { kind: "answered" }>;
  cache.sawClock(answer.nextDueInMs, sentMs, heard);
  cache.heardReady(answer.ready);
  const ready = new Set([...answer.ready, ...claims.routesOutside(home)]);
  return { ...answer, ready: [...ready], nextDueInMs: claims.nextInMs() };
}
