/**
 * A store of several partitions: the whole contract over stores that each have a part of the jobs. A job lives in one
 * partition from its submit to its removal, and everything that happens in one step happens there. This file sends each
 * part of a call to its partition and puts the answers together. Which partitions a claim asks is decided in claim.ts;
 * what is known of a partition lies in outlook.ts.
 *
 *  unit, settle, change ─► the partition of the id      claim, promote ─► partitions that may have work
 *  document ─► the partition of its name                lists, tallies, prunes, audits ─► all of them
 *
 * Seqs, feed numbers and epochs are each partition's own, and ranks order jobs inside a partition only.
 */
import { isMillraceError, MillraceError } from "../../model/error.ts";
import { createPlacement, partitionOfUnit } from "../../model/placement.ts";
import type { Placement } from "../../model/placement.ts";
import { checkSettles, checkUnits, laterOperations } from "../later-version.ts";
import type { ExtendAnswer, ExtendRequest } from "../operations.ts";
import type { LeasedJob } from "../records.ts";
import type { Durability, Hint, Store, StoreDescription, Unwatch } from "../store.ts";
import { Claims } from "./claim.ts";
import { addTallies, findJobs, joinRoutes, readDocs, readDue } from "./look.ts";
import { Outlook } from "./outlook.ts";
import type { Partition, PartitionedCalls } from "./partition.ts";
import { auditIndexes, Promotion, prune } from "./upkeep.ts";

interface PartitionedOptions {
  /** A clock of this process, in milliseconds, that never goes back. */
  readonly nowMs: () => number;
  /** Tests choose the partitions themselves. */
  readonly placement?: Placement;
}

/** How long after the first watch hints may still be missed, because not all partitions are listened to yet. */
const settlingMs = 10_000;
const weakest: readonly Durability[] = ["memory", "relaxed", "strict"];

export function partitionedStore(stores: readonly Store[], options: PartitionedOptions): Store {
  const { nowMs, placement = createPlacement(stores.length) } = options;
  const partitions = stores.map((store, number): Partition => ({ number, store, outlook: new Outlook() }));
  const watchers = new Set<(hint: Hint) => void>();
  let unwatches: Unwatch[] = [];
  let watchedMs = 0;
  const isWatched = (): boolean => unwatches.length > 0 && nowMs() - watchedMs >= settlingMs;
  const calls: PartitionedCalls = { partitions, nowMs, isWatched };
  const claims = new Claims(calls);
  const promotion = new Promotion(calls);
  const at = (number: number): Partition => partitions[number] as Partition;

  /** Sends each item to its partition, in the given order, and answers in the order of the items. */
  const split = async <Item, Answer>(
    items: readonly Item[],
    numberOf: (item: Item) => number,
    ask: (store: Store, items: readonly Item[]) => Promise<readonly Answer[]>,
  ): Promise<Answer[]> => {
    const byPartition = Map.groupBy(items.keys(), (index) => numberOf(items[index] as Item));
    if (byPartition.size === 1) {
      const [number] = byPartition.keys();
      return [...(await ask(at(number as number).store, items))];
    }
    const answers: Answer[] = [];
    const settled = await Promise.allSettled(
      [...byPartition].map(async ([number, indexes]) => {
        const own = await ask(
          at(number).store,
          indexes.map((index) => items[index] as Item),
        );
        for (const [position, index] of indexes.entries()) answers[index] = own[position] as Answer;
      }),
    );
    throwFailure(settled);
    return answers;
  };

  const tell = (hint: Hint): void => {
    for (const watcher of watchers) {
      try {
        watcher(hint);
      } catch {
        continue;
      }
    }
  };

  const heed = ({ outlook }: Partition, hint: Hint): void => {
    if (hint.kind === "due") outlook.heardDue(hint.inMs, nowMs());
    if (hint.kind === "ready") outlook.heardReady(hint.routes);
    tell(hint);
  };

  const extend = async (request: ExtendRequest): Promise<ExtendAnswer> => {
    const byPartition = Map.groupBy(request.leases.keys(), (index) =>
      placement.ofId(request.leases[index]?.id as string),
    );
    const whereLost = request.wantsOthers ? (claims.whereLost(request.owner) ?? new Set(partitions)) : null;
    const named = partitions.filter(
      (partition) => byPartition.has(partition.number) || whereLost?.has(partition) === true,
    );
    const asked = named.length === 0 ? partitions.slice(0, 1) : named;
    const answers: ExtendAnswer["answers"][number][] = [];
    const others: LeasedJob[][] = partitions.map(() => []);
    let now = 0;
    const settled = await Promise.allSettled(
      asked.map(async (partition) => {
        const indexes = byPartition.get(partition.number) ?? [];
        const leases = indexes.map((index) => request.leases[index] as ExtendRequest["leases"][number]);
        const own = await partition.store.extendIfLeased({ ...request, leases });
        for (const [position, index] of indexes.entries())
          answers[index] = own.answers[position] as ExtendAnswer["answers"][number];
        others[partition.number] = [...own.others];
        now = Math.max(now, own.now);
      }),
    );
    throwFailure(settled);
    if (request.wantsOthers) claims.found(request.owner);
    return { answers, others: others.flat().sort((one, other) => one.seq - other.seq), now };
  };

  return {
    partitions: stores.length,
    ...(stores[0]?.claimsAhead === undefined ? {} : { claimsAhead: stores[0].claimsAhead }),
    async describe(): Promise<StoreDescription> {
      const all = await Promise.all(stores.map((store) => store.describe()));
      const [first] = all as [StoreDescription];
      return {
        ...first,
        durability: weakest.find((level) => all.some(({ durability }) => durability === level)) ?? "memory",
        epoch: Math.max(...all.map(({ epoch }) => epoch)),
        partitions: stores.length,
        warnings: [...new Set(all.flatMap(({ warnings }) => warnings))],
      };
    },
    async submit(units) {
      checkUnits(units);
      return split(
        units,
        (unit) => partitionOfUnit(placement, unit) ?? 0,
        (store, own) => store.submit(own),
      );
    },
    claim(request) {
      promotion.noteLease(request.leaseMs);
      return claims.claim(request);
    },
    async settleIfLeased(settles) {
      checkSettles(settles);
      return split(
        settles,
        ({ id, effects = {} }) => partitionOfUnit(placement, effects, placement.ofId(id)) as number,
        (store, own) => store.settleIfLeased(own),
      );
    },
    extendIfLeased: extend,
    recordIfLeased: (writes) =>
      split(
        writes,
        ({ id }) => placement.ofId(id),
        (store, own) => store.recordIfLeased(own),
      ),
    changeIf: (changes) =>
      split(
        changes,
        ({ id }) => placement.ofId(id),
        (store, own) => store.changeIf(own),
      ),
    promoteDue: ({ max }) => promotion.promote(max, () => claims.nextInMs()),
    async readDue(request) {
      const page = await readDue(calls, request);
      return { ...page, nextInMs: claims.nextInMs() };
    },
    putDocs: (puts) =>
      split(
        puts,
        ({ id }) => placement.ofName(id),
        (store, own) => store.putDocs(own),
      ),
    readDocs: (request) => readDocs(calls, request, (name) => placement.ofName(name)),
    readJobs: (ids) =>
      split(
        ids,
        (id) => placement.ofId(id),
        (store, own) => store.readJobs(own),
      ),
    findJobs: (request) => findJobs(calls, request),
    readRoutes: async () => joinRoutes(await Promise.all(stores.map((store) => store.readRoutes()))),
    tallyJobs: async () => addTallies(await Promise.all(stores.map((store) => store.tallyJobs()))),
    async readFeed({ partition: number = 0, after, max }) {
      const partition = partitions[number];
      if (partition === undefined)
        throw new MillraceError("invalid-option", `This store has no partition ${number}.`);
      return partition.store.readFeed({ after, max });
    },
    readTrail: (request) => at(placement.ofId(request.id)).store.readTrail(request),
    prune: (request) => prune(calls, request),
    auditIndexes: (request) => auditIndexes(calls, request),
    ...laterOperations,
    watch(watcher) {
      watchers.add(watcher);
      if (unwatches.length === 0) {
        for (const { outlook } of partitions) outlook.forget();
        watchedMs = nowMs();
        unwatches = partitions.map((partition) => partition.store.watch((hint) => heed(partition, hint)));
      }
      return () => {
        if (!watchers.delete(watcher) || watchers.size > 0) return;
        for (const unwatch of unwatches.splice(0)) unwatch();
      };
    },
    inTransaction: (connection) => at(0).store.inTransaction(connection),
    async close() {
      watchers.clear();
      await Promise.all(stores.map((store) => store.close()));
    },
  };
}

/**
 * Throws if the call failed in any partition. If it failed in some only, the outcome is unknown, because the others
 * have done their part: whoever repeats the call then marks it as a repeat.
 */
function throwFailure(settled: readonly PromiseSettledResult<unknown>[]): void {
  const failures = settled.flatMap((result) =>
    result.status === "rejected" ? [result.reason as unknown] : [],
  );
  if (failures.length === 0) return;
  if (failures.length === settled.length)
    throw failures.find((error) => !isMillraceError(error) || error.outcome === "unknown") ?? failures[0];
  throw new MillraceError(
    "outcome-unknown",
    "Some partitions of the store could not be reached; the others did their part. Repeat the call with the same ids.",
    { cause: failures[0] },
  );
}
