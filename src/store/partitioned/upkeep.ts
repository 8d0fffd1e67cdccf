/**
 * Upkeep over partitions: promotion, pruning and the audit. Each call visits one partition after the other until it has
 * done as much as it was asked for. A partition that cannot be reached is skipped, and a later call visits it again.
 *
 *  cursor   the number of the partition to go on in, a colon, and that partition's own cursor
 */
import type { AuditAnswer, PromoteAnswer, PruneAnswer, PruneRequest } from "../operations.ts";
import { reach } from "./partition.ts";
import type { Partition, PartitionedCalls } from "./partition.ts";

/** The longest sleep while a partition is away: one of its clocks may ring, and nobody knows when. */
const lookAgainMs = 1000;
/**
 * How soon a partition is looked at again, as a share of the shortest lease. A claim sends no hint, so other processes
 * learn when a lease ends only by looking. A lease that began after the last look ends one lease length later at the
 * earliest; a look before that learns its end in time, and a worker that died is noticed at once.
 */
const lookShare = 0.8;
const leaseMaxMs = 15_000;

export class Promotion {
  readonly #calls: PartitionedCalls;
  #shortestLeaseMs = leaseMaxMs;

  constructor(calls: PartitionedCalls) {
    this.#calls = calls;
  }

  /** Notes how long the leases of this process are. Those of other processes are assumed to be no shorter. */
  noteLease(lengthMs: number): void {
    this.#shortestLeaseMs = Math.min(this.#shortestLeaseMs, lengthMs);
  }

  /**
   * Promotes in every partition in which a clock has rung or which was not looked at for long. The one that was not
   * looked at for longest is always asked, because a hint may be lost.
   */
  async promote(max: number, nextInMs: () => number | null): Promise<PromoteAnswer> {
    const { partitions, nowMs } = this.#calls;
    const byAge = partitions
      .filter(({ outlook }) => !outlook.isAway(nowMs()))
      .toSorted((one, other) => one.outlook.clockSeenMs - other.outlook.clockSeenMs);
    const failures: unknown[] = [];
    let count = 0;
    let isAnyAnswer = false;
    for (const [index, partition] of byAge.entries()) {
      const { outlook } = partition;
      const atMs = nowMs();
      if (count === max) break;
      const isOld = atMs - outlook.clockSeenMs >= this.#shortestLeaseMs * lookShare;
      if (index > 0 && this.#calls.isWatched() && !isOld && !outlook.mayHaveRung(atMs)) continue;
      const news = outlook.news;
      const left = max - count;
      const answer = await reach(this.#calls, partition, failures, (store) =>
        store.promoteDue({ max: left }),
      );
      if (answer === null) continue;
      isAnyAnswer = true;
      outlook.sawClock(answer.nextDueInMs, atMs, news);
      count += answer.count;
    }
    if (!isAnyAnswer && failures.length > 0) throw failures[0];
    const next = nextInMs();
    const nextDueInMs = failures.length === 0 ? next : Math.min(next ?? lookAgainMs, lookAgainMs);
    return { count, more: count === max, nextDueInMs };
  }
}

function positionOf(cursor: string | null): { at: number; rest: string | null } {
  if (cursor === null) return { at: 0, rest: null };
  const end = cursor.indexOf(":");
  return { at: Number(cursor.slice(0, end)), rest: end + 1 === cursor.length ? null : cursor.slice(end + 1) };
}

export async function prune(calls: PartitionedCalls, request: PruneRequest): Promise<PruneAnswer> {
  const { partitions } = calls;
  const { at, rest } = positionOf(request.what === "history" ? request.cursor : null);
  const failures: unknown[] = [];
  let removed = 0;
  for (const partition of partitions.slice(at)) {
    const { number } = partition;
    const max = request.max - removed;
    const answer = await reach(calls, partition, failures, (store) =>
      store.prune(
        request.what === "history"
          ? { ...request, max, cursor: number === at ? rest : null }
          : { ...request, max },
      ),
    );
    if (answer === null) continue;
    removed += answer.removed;
    if (answer.more) return { removed, more: true, cursor: cursorIn(request, number, answer.cursor) };
    if (removed === request.max && number + 1 < partitions.length)
      return { removed, more: true, cursor: cursorIn(request, number + 1, null) };
  }
  if (failures.length === partitions.length - at) throw failures[0];
  return { removed, more: false, cursor: null };
}

function cursorIn({ what }: PruneRequest, number: number, rest: string | null): string | null {
  return what === "history" ? `${number}:${rest ?? ""}` : null;
}

export async function auditIndexes(
  { partitions }: PartitionedCalls,
  { cursor, max }: { readonly cursor: string | null; readonly max: number },
): Promise<AuditAnswer> {
  const { at, rest } = positionOf(cursor);
  const answer = await (partitions[at] as Partition).store.auditIndexes({ cursor: rest, max });
  const next =
    answer.cursor === null ? (at + 1 < partitions.length ? `${at + 1}:` : null) : `${at}:${answer.cursor}`;
  return { ...answer, cursor: next };
}
