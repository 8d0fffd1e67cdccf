/**
 * A store in front of the store that lets the recorder hear of every call: how long it took, and which jobs it made.
 * Jobs are counted here, because every submit comes by: enqueues, follow-ups, schedules, and what is submitted in the
 * caller's own transaction (counted when it is written, though the transaction may be rolled back).
 *
 * Always true: the caller gets the very promise of the store, so a metered call is not a flush later than another.
 */
import type { Platform } from "../../platform/platform.ts";
import type { laterOperations } from "../../store/later-version.ts";
import { isLocked } from "../../store/operations.ts";
import type { OrLocked, SettleAnswer, SubmitAnswer } from "../../store/operations.ts";
import type { NewJob } from "../../store/records.ts";
import type { Store, TransactionStore } from "../../store/store.ts";
import type { MetricRecorder } from "./metric-recorder.ts";

type Untimed =
  | ("describe" | "isView" | "claimsAhead" | "claimsOvertake" | "partitions" | "missing" | "announceTaken")
  | ("readHeads" | "measure" | "readUnreadable" | "deleteUnreadable" | keyof typeof laterOperations)
  | ("watch" | "inTransaction" | "close");

/** Operations that people, workers and duties wait for: all of the contract but those that are named above. */
const timed: Readonly<Record<Exclude<keyof Store, Untimed>, true>> = {
  submit: true,
  claim: true,
  heartbeat: true,
  settleIfLeased: true,
  extendIfLeased: true,
  recordIfLeased: true,
  changeIf: true,
  promoteDue: true,
  readDue: true,
  putGates: true,
  readGates: true,
  putDocs: true,
  readDocs: true,
  readDueDocs: true,
  readJobs: true,
  findJobs: true,
  countJobs: true,
  readRoutes: true,
  readFeed: true,
  readLogs: true,
  readFrames: true,
  readJournal: true,
  prune: true,
  auditIndexes: true,
};

type Call = (...args: readonly unknown[]) => Promise<unknown>;

export function meteredStore(store: Store, platform: Platform, recorder: MetricRecorder): Store {
  const metered: Record<string, unknown> = {};
  for (const operation of Object.keys(timed) as (keyof typeof timed)[]) {
    metered[operation] = (...args: readonly unknown[]): Promise<unknown> => {
      const beganUs = platform.monotonicUs();
      // By its name at every call: a store may be given another function meanwhile.
      const answer = (store[operation] as Call)(...args);
      answer.then(
        (value) => {
          recorder.called(operation, platform.monotonicUs() - beganUs, false);
          if (operation === "submit" || operation === "settleIfLeased")
            countMade(recorder, args[0] as readonly Makes[], value as readonly OrLocked<Made>[]);
        },
        () => recorder.called(operation, platform.monotonicUs() - beganUs, true),
      );
      return answer;
    };
  }
  const inTransaction = (connection: unknown): TransactionStore => {
    const inner = store.inTransaction(connection);
    return { ...inner, submit: (units) => counted(recorder, units, inner.submit(units)) };
  };
  // What is not metered is the store's own, also where it is given another function meanwhile.
  return Object.assign(Object.create(store) as Store, metered, { inTransaction });
}

async function counted(
  recorder: MetricRecorder,
  units: readonly Makes[],
  answering: ReturnType<Store["submit"]>,
): ReturnType<Store["submit"]> {
  const answers = await answering;
  countMade(recorder, units, answers);
  return answers;
}

/** A unit of a submit, or a settle. */
interface Makes {
  readonly jobs?: readonly NewJob[];
  readonly effects?: { readonly jobs?: readonly NewJob[] };
}
type Made = SubmitAnswer | SettleAnswer;

/**
 * By places and without iterators: most settles of a drain come by here and make nothing. Jobs of one kind that follow
 * each other are counted at once.
 */
function countMade(
  recorder: MetricRecorder,
  units: readonly Makes[],
  answers: readonly OrLocked<Made>[],
): void {
  let like: NewJob | null = null;
  let count = 0;
  for (let place = 0; place < units.length; place++) {
    const { jobs, effects } = units[place] as Makes;
    const made = jobs ?? effects?.jobs;
    if (made === undefined) continue;
    const answer = answers[place] as OrLocked<Made>;
    if (isLocked(answer) || answer.kind !== "ok") continue;
    const hows = "hows" in answer ? answer.hows : null;
    for (let index = 0; index < made.length; index++) {
      if (hows !== null && hows[index] === "existing") continue;
      const job = made[index] as NewJob;
      if (like === null || job.name !== like.name || job.queue !== like.queue) {
        if (like !== null) recorder.submitted(like, count);
        like = job;
        count = 0;
      }
      count += 1;
    }
  }
  if (like !== null) recorder.submitted(like, count);
}
