/**
 * A bucket as another process may look at it: a copy that follows the log and is never written. It fences nobody. What
 * it shows is as old as its last look, at most a second while somebody asks, and the description says so.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { MillraceError } from "../../model/error.ts";
import type { Platform } from "../../platform/platform.ts";
import { laterOperations } from "../../store/later-version.ts";
import { openStoreClock } from "../../store/store-clock.ts";
import type { Store, StoreDescription, StoreRequests } from "../../store/store.ts";
import { closeSession, commitCalls, isRead, openSession } from "../sqlite/commit.ts";
import type { Call, CallOutcome, CommitOutcome, Session } from "../sqlite/commit.ts";
import { openExecutor } from "../sqlite/executor.ts";
import { readMeta, readSchemaVersion } from "../sqlite/migrate.ts";
import { openDatabase } from "../sqlite/open-file.ts";
import { bucketError } from "./bucket-errors.ts";
import { makeCacheFolder } from "./cache-folder.ts";
import { readNote } from "./held.ts";
import { headFrom, headName } from "./layout.ts";
import { keepAliveMs } from "./log-writer.ts";
import { CountedObjects } from "./objects/counted.ts";
import type { Objects } from "./objects/objects.ts";
import { retrying } from "./objects/retrying.ts";
import { readPrices, requestsOf } from "./prices.ts";
import type { BucketPrices } from "./prices.ts";
import { Replica } from "./replica.ts";

export interface BucketViewOptions {
  readonly objects: Objects;
  readonly platform: Platform;
  readonly cacheFolder?: string;
  readonly prices?: Partial<BucketPrices>;
}

const lookMs = 1000;
const busyTimeoutMs = 10_000;

export async function openBucketView(options: BucketViewOptions): Promise<Store> {
  const { platform } = options;
  const prices = readPrices(options.prices, "open: bucket.prices");
  const counted = new CountedObjects(options.objects);
  const objects = retrying(counted, platform);
  const folder = makeCacheFolder(options.cacheFolder ?? null, platform);
  const removeAll = async (): Promise<void> => {
    rmSync(folder, { recursive: true, force: true });
    await objects.close();
  };
  let replica: Replica | null = null;
  try {
    const head = await objects.get(headName);
    if (head === null) throw missing();
    const { pageSize } = headFrom(head);
    replica = await Replica.restore(objects, { path: join(folder, "store.db"), pageSize });
    if (replica.pageCount === 0) throw missing();
    return viewOf(replica, platform, { requests: () => requestsOf(counted.counts, prices), removeAll });
  } catch (error) {
    replica?.close();
    await removeAll();
    throw bucketError(error, "did-not-happen");
  }
}

function missing(): MillraceError {
  const sentence = "This bucket holds no store yet. Start a worker on it first, or correct the URL.";
  return new MillraceError("store-missing", sentence);
}

function viewOf(
  replica: Replica,
  platform: Platform,
  {
    requests,
    removeAll,
  }: { readonly requests: () => StoreRequests; readonly removeAll: () => Promise<void> },
): Store {
  const clock = openStoreClock(platform);
  let session = openCopy(replica);
  let lookedUs = platform.monotonicUs();
  const look = async (): Promise<void> => {
    if (platform.monotonicUs() - lookedUs < lookMs * 1000) return;
    lookedUs = platform.monotonicUs();
    const before = session;
    if ((await replica.catchUp()) === 0) return;
    // The connection does not see what was written past it: a new one does.
    session = openCopy(replica);
    closeSession(before);
  };
  const run = async (calls: readonly Call[], machineNow: number): Promise<CommitOutcome> => {
    await look();
    const reads = calls.filter(({ operation }) => isRead(operation));
    const done = commitCalls(session, reads, machineNow);
    const outcomes = calls.map((call): CallOutcome =>
      isRead(call.operation)
        ? (done.outcomes[reads.indexOf(call)] as CallOutcome)
        : { kind: "error", error: readOnly(call.operation) },
    );
    return { ...done, outcomes };
  };
  const executor = openExecutor({
    runner: { run, close: () => closeSession(session) },
    ...{ platform, clock, path: replica.path, busyTimeoutMs },
    onCommitted: () => undefined,
  });
  const call = (operation: Call["operation"], request: unknown = null) =>
    executor.call(operation, request) as Promise<never>;
  const operation =
    (name: Call["operation"]) =>
    (request?: unknown): Promise<never> =>
      call(name, request);
  return {
    async describe(): Promise<StoreDescription> {
      const now: number = await call("readNow");
      return {
        kind: "bucket",
        durability: "strict",
        acknowledged: "This is a view of the bucket: it acknowledges nothing.",
        epoch: replica.epoch,
        now,
        schemaVersion: readSchemaVersion(session.database, replica.path),
        capabilities: { transactions: false, processes: "one" },
        warnings: [stateOf(replica, platform)],
        requests: requests(),
      };
    },
    submit: operation("submit"),
    claim: operation("claim"),
    settleIfLeased: operation("settleIfLeased"),
    extendIfLeased: operation("extendIfLeased"),
    recordIfLeased: operation("recordIfLeased"),
    changeIf: operation("changeIf"),
    promoteDue: operation("promoteDue"),
    readDue: operation("readDue"),
    putGates: operation("putGates"),
    readGates: operation("readGates"),
    putDocs: operation("putDocs"),
    readDocs: operation("readDocs"),
    readDueDocs: operation("readDueDocs"),
    readJobs: operation("readJobs"),
    findJobs: operation("findJobs"),
    tallyJobs: operation("tallyJobs"),
    readRoutes: operation("readRoutes"),
    readFeed: operation("readFeed"),
    readTrail: operation("readTrail"),
    prune: operation("prune"),
    auditIndexes: operation("auditIndexes"),
    readAside: operation("readAside"),
    removeAside: operation("removeAside"),
    readHeads: operation("readHeads"),
    ...laterOperations,
    watch: () => () => undefined,
    inTransaction() {
      throw readOnly("inTransaction");
    },
    async close() {
      await executor.close();
      replica.close();
      await removeAll();
    },
  };
}

function openCopy(replica: Replica): Session {
  const { path } = replica;
  const database = openDatabase({ path, durability: "strict", lockSleepMs: 0 });
  readSchemaVersion(database, path);
  const epoch = Number(readMeta(database, "epoch") ?? 1);
  return openSession(database, { path, epoch, opener: null, identity: null });
}

function readOnly(operation: string): MillraceError {
  const sentence = `A view of a bucket can only be read, so ${operation} was refused. Ask the process that writes to it, or open it with whenHeld: "take".`;
  return new MillraceError("store-read-only", sentence);
}

/** How old the view is, and whether a writer lives, as far as the log tells. */
function stateOf(replica: Replica, platform: Platform): string {
  const ageMs = Math.max(0, platform.now() - replica.writerAt);
  const age = `Its last record is ${Math.round(ageMs / 1000)} s old`;
  const note = readNote(replica);
  if (replica.isFree || note === null)
    return `This is a view of the bucket. ${age}; no process writes to it.`;
  const who = `process ${note.pid} on ${note.host}`;
  const state = ageMs <= 1.5 * keepAliveMs ? `${who} writes to it` : `${who} has fallen silent`;
  return `This is a view of the bucket. ${age}; ${state}.`;
}
