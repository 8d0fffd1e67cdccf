/**
 * Pruning and the audit over partitions. Each call visits one partition after the other until it has done the requested
 * amount. A partition that is away or fails is passed over, and a later call visits it again.
 *
 *  cursor   the number of the partition to go on in, a colon, and that partition's own cursor
 */
import type { AuditAnswer, PruneAnswer, PruneRequest } from "../upkeep.ts";
import { presentOnes, reach, throwFirst } from "./partition.ts";
import type { Partition, PartitionedCalls, Reached } from "./partition.ts";
import { pruneSurplus } from "./surplus.ts";

function positionOf(cursor: string | null): { at: number; rest: string | null } {
  if (cursor === null) return { at: 0, rest: null };
  const end = cursor.indexOf(":");
  return { at: Number(cursor.slice(0, end)), rest: end + 1 === cursor.length ? null : cursor.slice(end + 1) };
}

/**
 * The partitions to visit, from this number on. If all are away they are asked anyway, so that the caller gets the
 * error.
 */
function toVisit({ partitions }: PartitionedCalls, at: number): readonly Partition[] {
  const rest = partitions.slice(at);
  const present = presentOnes(rest);
  return present.length > 0 || presentOnes(partitions).length > 0 ? present : rest;
}

export async function prune(calls: PartitionedCalls, request: PruneRequest): Promise<PruneAnswer> {
  if (request.what === "surplus") return pruneSurplus(calls, request);
  const { partitions } = calls;
  const { at, rest } = positionOf(request.what === "history" ? request.cursor : null);
  const visits = toVisit(calls, at);
  const reached: Reached<PruneAnswer>[] = [];
  let pruned = 0;
  const prunedIn: Record<number, number> = {};
  for (const partition of visits) {
    const { number } = partition;
    const max = request.max - pruned;
    const visit = await reach(partition, {
      name: `prune ${request.what}`,
      call: (store) =>
        store.prune(
          request.what === "history"
            ? { ...request, max, cursor: number === at ? rest : null }
            : { ...request, max },
        ),
      timeout: calls.timeout.long,
    });
    reached.push(visit);
    if (visit.kind !== "answered") continue;
    const { answer } = visit;
    pruned += answer.pruned;
    if (answer.pruned > 0) prunedIn[number] = answer.pruned;
    if (answer.more)
      return { pruned, prunedIn, more: true, cursor: cursorIn(request, number, answer.cursor) };
    if (pruned === request.max && number + 1 < partitions.length)
      return { pruned, prunedIn, more: true, cursor: cursorIn(request, number + 1, null) };
  }
  if (!reached.some(({ kind }) => kind === "answered")) throwFirst(reached);
  return { pruned, prunedIn, more: false, cursor: null };
}

function cursorIn({ what }: PruneRequest, number: number, rest: string | null): string | null {
  return what === "history" ? `${number}:${rest ?? ""}` : null;
}

export async function auditIndexes(
  calls: PartitionedCalls,
  { cursor, max }: { readonly cursor: string | null; readonly max: number },
): Promise<AuditAnswer> {
  const { at, rest } = positionOf(cursor);
  const reached: Reached<AuditAnswer>[] = [];
  for (const partition of toVisit(calls, at)) {
    const { number } = partition;
    const own = number === at ? rest : null;
    const visit = await reach(partition, {
      name: "auditIndexes",
      call: (store) => store.auditIndexes({ cursor: own, max }),
      timeout: calls.timeout.long,
    });
    reached.push(visit);
    if (visit.kind !== "answered") continue;
    const { answer } = visit;
    const isLast = number + 1 === calls.partitions.length;
    const next = answer.cursor === null ? (isLast ? null : `${number + 1}:`) : `${number}:${answer.cursor}`;
    return { ...answer, checkedIn: { [number]: answer.checked }, cursor: next };
  }
  // Later in a walk others have answered: it ends without the remaining ones.
  if (cursor === null) throwFirst(reached);
  return { checked: 0, repaired: {}, cursor: null };
}
