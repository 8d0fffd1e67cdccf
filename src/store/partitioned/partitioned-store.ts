/**
 * A store of several partitions: the contract over stores that each have a part of the jobs. A job lives in one
 * partition from its submit to its deletion, and every step happens in one partition. This file sends each part of a
 * call to its partition and joins the answers. claim.ts decides which partitions a claim asks; partition-cache.ts has
 * what is known of a partition.
 *
 *  unit, settle, change ─► the partition of the id      claim, promote ─► partitions that may have work
 *  document ─► the partition of its name                lists, state counts, prunes, audits ─► all of them
 *
 * Seqs, feed numbers and epochs are each partition's own, and ranks order jobs inside a partition only.
 *
 * A partition that fails or is unresponsive does not stop the others: calls over all partitions pass it over, and
 * `missing` names it. A call that is addressed to it fails.
 */
import assert from "node:assert/strict";
import { isMillraceError, MillraceError } from "../../model/error.ts";
import { createPlacement, isPlacedByPrefix, partitionOfUnit } from "../../model/routing/placement.ts";
import type { Placement } from "../../model/routing/placement.ts";
import { laterOperations } from "../later-version.ts";
import { missingSentence } from "./missing-partition.ts";
import { addStateCounts } from "../state-counts.ts";
import type { HeartbeatRequest } from "../operations.ts";
import type { Durability, Hint, MissingPartition, Store, StoreDescription, Unwatch } from "../store.ts";
import { readUnreadable, deleteUnreadable } from "./unreadable.ts";
import { Claims } from "./claim.ts";
import { extendIfLeased } from "./extend.ts";
import { readGates } from "./gates.ts";
import { heartbeat } from "./heartbeat.ts";
import { Health } from "./health.ts";
import { findJobs, joinRoutes, readDocs, readDue, readDueDocs } from "./merged-reads.ts";
import { noteChanges, noteDocs, noteEffects } from "./own-clocks.ts";
import { PartitionCache } from "./partition-cache.ts";
import { askAll } from "./partition.ts";
import type { Partition, PartitionedCalls } from "./partition.ts";
import { CallTimeout } from "./call-timeout.ts";
import type { Timekeeper } from "./call-timeout.ts";
import { Promotion } from "./promote.ts";
import { putGates } from "./put-gates.ts";
import { auditIndexes, prune } from "./upkeep-walk.ts";

interface PartitionedOptions {
  readonly platform: Timekeeper;
  /** Tests choose the partitions themselves. */
  readonly placement?: Placement;
  /** The pending openings of partitions that did not answer in time. They are away until then. */
  readonly late?: ReadonlyMap<number, Promise<unknown>>;
}

/** How long after the first watch hints may still be missed, because not all partitions are listened to yet. */
const settlingMs = 10_000;
/** How long a claim, a promotion or an extension waits for one partition after others have answered; and a list. */
const shortTimeoutMs = 250;
const longTimeoutMs = 5000;
const weakest: readonly Durability[] = ["memory", "relaxed", "strict"];

export function partitionedStore(stores: readonly Store[], options: PartitionedOptions): Store {
  const { platform, placement = createPlacement(stores.length) } = options;
  const nowMs = (): number => platform.monotonicUs() / 1000;
  const partitions = stores.map((store, number): Partition => {
    const cache = new PartitionCache();
    return { number, store, cache, health: new Health(nowMs, () => returned(cache)) };
  });
  for (const [number, opening] of options.late ?? []) partitions[number]?.health.opensLate(opening);
  const watchers = new Set<(hint: Hint) => void>();
  let unwatches: Unwatch[] = [];
  let watchedMs = 0;
  const isWatched = (): boolean => unwatches.length > 0 && nowMs() - watchedMs >= settlingMs;
  const timeout = {
    short: new CallTimeout(platform, shortTimeoutMs),
    long: new CallTimeout(platform, longTimeoutMs),
  };
  const calls: PartitionedCalls = { partitions, nowMs, timeout, isWatched };
  const at = (number: number): Partition => partitions[number] as Partition;

  /** Sends each item to its partition, in the given order, and answers in the order of the items. */
  const split = async <Item, Answer>(
    items: readonly Item[],
    numberOf: (item: Item) => number,
    ask: (partition: Partition, items: readonly Item[]) => Promise<readonly Answer[]>,
  ): Promise<Answer[]> => {
    const byPartition = Map.groupBy(items.keys(), (index) => numberOf(items[index] as Item));
    if (byPartition.size === 1) {
      const [number] = byPartition.keys();
      return [...(await ask(at(number as number), items))];
    }
    const answers: Answer[] = [];
    const settled = await Promise.allSettled(
      [...byPartition].map(async ([number, indexes]) => {
        const own = await ask(
          at(number),
          indexes.map((index) => items[index] as Item),
        );
        for (const [position, index] of indexes.entries()) answers[index] = own[position] as Answer;
      }),
    );
    throwFailure(settled);
    return answers;
  };

  const emit = (hint: Hint): void => {
    for (const watcher of watchers) {
      try {
        watcher(hint);
      } catch {
        continue;
      }
    }
  };

  /** The one partition in which the documents of a heartbeat lie. */
  const homeOf = ({ puts, read }: HeartbeatRequest): Partition => {
    const names = "ids" in read ? read.ids : [read.prefix];
    assert("ids" in read || isPlacedByPrefix(read.prefix), "a heartbeat reads one partition");
    const number = partitionOfUnit(placement, { docs: [...puts, ...names.map((id) => ({ id }))] });
    return at(number ?? 0);
  };

  const claims = new Claims(calls, emit);
  const promotion = new Promotion(calls);

  /** Hints of a partition that was away may be lost, so workers and duties ask it at once. */
  const returned = (cache: PartitionCache): void => {
    cache.clear();
    if (claims.routes.length > 0) emit({ kind: "ready", routes: claims.routes });
    emit({ kind: "due", inMs: 0 });
  };

  const heed = ({ number, cache }: Partition, hint: Hint): void => {
    if (hint.kind === "due") cache.heardDue(hint.inMs, nowMs());
    if (hint.kind === "ready") cache.heardReady(hint.routes);
    if (hint.kind === "promoted") cache.heardPromoted(nowMs());
    if (hint.kind !== "emitted") emit(hint);
    emit({ kind: "emitted", partition: number });
  };

  const missing = (): readonly MissingPartition[] =>
    partitions.flatMap(({ number, health: { trouble } }) =>
      trouble === null ? [] : [{ number, ...trouble }],
    );

  return {
    partitions: stores.length,
    ...(stores[0]?.claimsAhead === undefined ? {} : { claimsAhead: stores[0].claimsAhead }),
    async describe(): Promise<StoreDescription> {
      const all = (await askAll(calls, "describe", (store) => store.describe())).map(({ answer }) => answer);
      const [first] = all as [StoreDescription];
      return {
        ...first,
        durability: weakest.find((level) => all.some(({ durability }) => durability === level)) ?? "memory",
        epoch: Math.max(...all.map(({ epoch }) => epoch)),
        partitions: stores.length,
        warnings: [...new Set(all.flatMap(({ warnings }) => warnings)), ...missing().map(missingSentence)],
      };
    },
    async readHeads() {
      const all = await askAll(calls, "readHeads", async (store) => (await store.readHeads?.()) ?? []);
      return all.flatMap(({ answer }) => answer);
    },
    async measure() {
      const all = await askAll(calls, "measure", async (store) => (await store.measure?.()) ?? []);
      // Several partitions may lie on one server.
      return [...new Map(all.flatMap(({ answer }) => answer).map((each) => [each.server, each])).values()];
    },
    async submit(units) {
      return split(
        units,
        (unit) => partitionOfUnit(placement, unit) ?? 0,
        async ({ store, cache }, own) => {
          const answers = await store.submit(own);
          for (const unit of own) noteEffects(cache, unit, nowMs());
          return answers;
        },
      );
    },
    claim(request) {
      promotion.noteLease(request.leaseMs);
      return claims.claim(request);
    },
    async heartbeat(request) {
      const home = homeOf(request);
      const answer = await heartbeat(calls, claims, home, request);
      noteDocs(home.cache, request.puts, nowMs());
      return answer;
    },
    async settleIfLeased(settles) {
      return split(
        settles,
        ({ id, effects = {} }) => partitionOfUnit(placement, effects, placement.ofId(id)) as number,
        async ({ store, cache }, own) => {
          const answers = await store.settleIfLeased(own);
          noteChanges(cache, own, nowMs());
          for (const { effects = {} } of own) noteEffects(cache, effects, nowMs());
          return answers;
        },
      );
    },
    extendIfLeased: (request) => extendIfLeased(calls, claims.lost, request, (id) => placement.ofId(id)),
    recordIfLeased: (writes) =>
      split(
        writes,
        ({ id, effects = {} }) => partitionOfUnit(placement, effects, placement.ofId(id)) as number,
        async ({ store, cache }, own) => {
          const answers = await store.recordIfLeased(own);
          for (const { effects = {} } of own) noteEffects(cache, effects, nowMs());
          return answers;
        },
      ),
    changeIf: (changes) =>
      split(
        changes,
        ({ id }) => placement.ofId(id),
        async ({ store, cache }, own) => {
          const answers = await store.changeIf(own);
          for (const { cases } of own) noteChanges(cache, cases, nowMs());
          return answers;
        },
      ),
    promoteDue: ({ max }) => promotion.promote(max, () => claims.nextInMs()),
    async readDue(request) {
      const page = await readDue(calls, request);
      return { ...page, nextInMs: claims.nextInMs() };
    },
    putGates: (puts) => putGates(calls, placement, puts),
    readGates: (request) => readGates(calls, placement, request),
    putDocs: (puts) =>
      split(
        puts,
        (put) => partitionOfUnit(placement, { docs: [put] }) as number,
        async ({ store, cache }, own) => {
          const answers = await store.putDocs(own);
          noteDocs(cache, own, nowMs());
          return answers;
        },
      ),
    readDocs: (request) => readDocs(calls, request, (name) => placement.ofName(name)),
    async readDueDocs(request) {
      const page = await readDueDocs(calls, request);
      return { ...page, nextInMs: claims.nextInMs() };
    },
    readJobs: (ids) =>
      split(
        ids,
        (id) => placement.ofId(id),
        ({ store }, own) => store.readJobs(own),
      ),
    findJobs: (request) => findJobs(calls, request),
    async readRoutes() {
      const lists = await askAll(calls, "readRoutes", (store) => store.readRoutes());
      return joinRoutes(lists.map(({ answer }) => answer));
    },
    async countJobs() {
      const stateCounts = await askAll(calls, "countJobs", (store) => store.countJobs());
      return addStateCounts(stateCounts.map(({ answer }) => answer));
    },
    async readFeed({ partition: number = 0, ...request }) {
      const partition = partitions[number];
      if (partition === undefined)
        throw new MillraceError("invalid-option", `This store has no partition ${number}.`);
      return partition.store.readFeed(request);
    },
    readLogs: (request) => at(placement.ofId(request.id)).store.readLogs(request),
    readFrames: (reads) =>
      split(
        reads,
        ({ id }) => placement.ofId(id),
        ({ store }, own) => store.readFrames(own),
      ),
    readJournal: (reads) =>
      split(
        reads,
        ({ id }) => placement.ofId(id),
        ({ store }, own) => store.readJournal(own),
      ),
    prune: (request) => prune(calls, request),
    auditIndexes: (request) => auditIndexes(calls, request),
    readUnreadable: (request) => readUnreadable(calls, request),
    deleteUnreadable: (refs) => deleteUnreadable(calls, refs),
    missing,
    ...laterOperations,
    watch(watcher) {
      watchers.add(watcher);
      if (unwatches.length === 0) {
        for (const { cache } of partitions) cache.clear();
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
      timeout.short.close();
      timeout.long.close();
      await Promise.all(stores.map((store) => store.close()));
    },
  };
}

/**
 * Throws if the call failed in any partition. If it failed in some only, the outcome is unknown, because the others
 * have done their part: the caller then repeats it as a repeat.
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
