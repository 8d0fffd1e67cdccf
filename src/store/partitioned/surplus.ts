/**
 * Retention by count over partitions. The count is for the whole queue: each partition keeps a share in proportion to
 * its finished jobs, rounded up. So never fewer jobs are kept than requested, and at most one more per partition. Jobs
 * of a partition that is away are not counted, so the others keep more.
 *
 *  cursor   a JSON list of the partitions' own cursors
 */
import type { SurplusRequest } from "../rules/prune.ts";
import type { PruneAnswer } from "../upkeep.ts";
import { askAll } from "./partition.ts";
import type { PartitionedCalls } from "./partition.ts";

export async function pruneSurplus(calls: PartitionedCalls, request: SurplusRequest): Promise<PruneAnswer> {
  const { queue, outcome, keep, max } = request;
  const cursors = calls.partitions.map((): string | null => null);
  if (request.cursor !== null) cursors.splice(0, Infinity, ...(JSON.parse(request.cursor) as typeof cursors));
  const counted = await askAll(calls, "countJobs", async (store) => {
    const own = (await store.countJobs()).filter(
      (stateCount) => stateCount.queue === queue && stateCount.state === outcome,
    );
    return own.reduce((sum, { count }) => sum + count, 0);
  });
  const total = counted.reduce((sum, { answer }) => sum + answer, 0);
  let pruned = 0;
  const prunedIn: Record<number, number> = {};
  let more = false;
  for (const { partition, answer: finished } of total > keep ? counted : []) {
    const share = Math.ceil((keep * finished) / total);
    if (finished <= share) continue;
    if (pruned === max) {
      more = true;
      break;
    }
    const { number } = partition;
    const own = { ...request, keep: share, max: max - pruned, cursor: cursors[number] ?? null };
    const [reached] = await askAll(calls, "prune surplus", (store) => store.prune(own), [partition]);
    pruned += reached?.answer.pruned ?? 0;
    if (reached !== undefined && reached.answer.pruned > 0) prunedIn[number] = reached.answer.pruned;
    more ||= reached?.answer.more ?? false;
    cursors[number] = reached?.answer.cursor ?? null;
  }
  return {
    pruned,
    prunedIn,
    more,
    cursor: cursors.every((cursor) => cursor === null) ? null : JSON.stringify(cursors),
  };
}
