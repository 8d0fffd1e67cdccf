/**
 * The batchers of a process: single submits, settles, reports, changes and reads become store calls of many. Callers of
 * one flush share these calls. On a store of several partitions each partition has calls of its own.
 */
import { withMintedIds } from "../../model/error.ts";
import type { Platform } from "../../platform/platform.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import type {
  Change,
  ChangeAnswer,
  FramesAnswer,
  FramesRead,
  JournalAnswer,
  JournalRead,
  Settle,
  SettleAnswer,
  SubmitAnswer,
  SubmitUnit,
} from "../../store/operations.ts";
import type { JobRecord, NewJob } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import { Reports } from "../attempts/reports.ts";
import { JobIds } from "../submit/job-ids.ts";
import { Batcher } from "./batcher.ts";
import type { BatcherOptions } from "./batcher.ts";
import type { Flush } from "./flush.ts";
import { PartitionBatcher } from "./partition-batcher.ts";
import type { Batching } from "./partition-batcher.ts";

export interface StoreBatchers {
  readonly submits: Batching<SubmitUnit, SubmitAnswer>;
  readonly settles: Batching<Settle, SettleAnswer>;
  readonly records: Reports;
  readonly changes: Batching<Change, ChangeAnswer>;
  readonly reads: Batching<string, JobRecord | null>;
  /** Of the journals of durable runs. */
  readonly journals: Batching<JournalRead, JournalAnswer>;
  /** Of the output of jobs. */
  readonly outputs: Batching<FramesRead, FramesAnswer>;
}

export interface BatcherNeeds {
  readonly store: Store;
  readonly platform: Platform;
  readonly flush: Flush;
  readonly ids: JobIds;
  readonly giveUpMs: number;
}

/**
 * How long settles are repeated while the store is away. Long, because results are valuable and a repeat is safe: the
 * lease is renewed meanwhile, and a settle that comes too late is refused by its fence.
 */
const settleGiveUpMs = 600_000;
/** On a server that does calls in order, this many settles are sent during the call in flight. */
const secondSettlesFrom = 100;

export function createStoreBatchers({ store, platform, flush, ids, giveUpMs }: BatcherNeeds): StoreBatchers {
  const { placement } = ids;
  const shared = { platform, flush, weightMax: storeLimits.callItemsMax, giveUpMs };
  const batching = <Item, Answer>(
    options: BatcherOptions<Item, Answer>,
    idOf: (item: Item) => string,
  ): Batching<Item, Answer> =>
    placement === null
      ? new Batcher(options)
      : new PartitionBatcher(options, placement.partitions, (item) => placement.ofId(idOf(item)));
  const submitting: BatcherOptions<SubmitUnit, SubmitAnswer> = {
    ...shared,
    call: (units) => store.submit(units),
    weigh: (unit) => unit.jobs.length,
    // The ids are minted here, so repeating a submit that may have happened makes no second job.
    again: (unit) => ({ ...unit, isRepeat: true }),
    failure: (error, unit) => withMintedIds(error, JobIds.named(unit)),
  };
  const settling: BatcherOptions<Settle, SettleAnswer> = {
    ...shared,
    giveUpMs: settleGiveUpMs,
    call: (settles) => store.settleIfLeased(settles),
    ...(store.claimsAhead === true && store.claimsOvertake !== true ? { secondFrom: secondSettlesFrom } : {}),
    weigh: weighSettle,
  };
  const byId = ({ id }: { readonly id: string }): string => id;
  const changing: BatcherOptions<Change, ChangeAnswer> = {
    ...shared,
    call: (changes) => store.changeIf(changes),
  };
  const reading: BatcherOptions<JournalRead, JournalAnswer> = {
    ...shared,
    call: (asked) => store.readJournal(asked),
  };
  return {
    submits: batching(submitting, ({ jobs }) => jobs[0]?.id ?? ""),
    settles: batching(settling, byId),
    records: new Reports({ ...shared, call: (writes) => store.recordIfLeased(writes) }, (options) =>
      batching(options, byId),
    ),
    changes: batching(changing, byId),
    reads: batching({ ...shared, call: (asked) => store.readJobs(asked) }, (id) => id),
    journals: batching(reading, byId),
    outputs: batching({ ...shared, call: (asked: readonly FramesRead[]) => store.readFrames(asked) }, byId),
  };
}

function weighSettle(settle: Settle): number {
  const jobs: readonly NewJob[] | undefined = settle.effects?.jobs;
  return jobs === undefined ? 1 : 1 + jobs.length;
}
