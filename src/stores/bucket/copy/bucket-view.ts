/**
 * A bucket as another process may look at it: a copy that follows the log and is never written. It fences nobody. What
 * it shows is as old as its last look, at most a second while somebody asks, and the description says so.
 */
import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { MillraceError } from "../../../model/error.ts";
import type { Platform } from "../../../platform/platform.ts";
import { laterOperations } from "../../../store/later-version.ts";
import { openStoreClock } from "../../../store/store-clock.ts";
import type { Store, StoreDescription, StoreRequests, StoreView } from "../../../store/store.ts";
import type { WakeFile } from "../../sqlite/feed/wake-file.ts";
import { closeSession, commitCalls, isRead, openSession } from "../../sqlite/connection/commit.ts";
import type { Call, CallOutcome, CommitOutcome, Session } from "../../sqlite/connection/commit.ts";
import { openExecutor } from "../../sqlite/connection/executor.ts";
import { readMeta, readSchemaVersion } from "../../sqlite/connection/migrate.ts";
import { openWatch } from "../../sqlite/feed/watch.ts";
import { bucketError } from "../bucket-errors.ts";
import { cacheError, makeCacheFolder } from "./cache-folder.ts";
import type { CacheFolder } from "./cache-folder.ts";
import { Follower, isWriterRunning, writerName } from "../takeover/held-bucket.ts";
import { readHead, storeMissing } from "../restore/history.ts";
import { silentMs } from "../log/log-writer.ts";
import { CountedObjects } from "../objects/counted.ts";
import type { Objects } from "../objects/objects.ts";
import { retrying } from "../objects/retrying.ts";
import { readPrices, requestsOf } from "../prices.ts";
import type { BucketPrices } from "../prices.ts";
import { Replica } from "./replica.ts";

export interface BucketViewOptions {
  readonly objects: Objects;
  readonly platform: Platform;
  readonly cacheFolder?: string;
  readonly prices?: Partial<BucketPrices>;
}

interface Heard {
  atUs: number | null;
  sinceUs: number;
}

const lookMs = 1000;
const busyTimeoutMs = 10_000;

export async function openBucketView(options: BucketViewOptions): Promise<Store> {
  const { platform, cacheFolder } = options;
  const prices = readPrices(options.prices, "open: bucket.prices");
  const counted = new CountedObjects(options.objects);
  const objects = retrying(counted, platform);
  let folder: CacheFolder | null = null;
  let replica: Replica | null = null;
  try {
    const { pageSize } = await readHead(objects);
    folder = makeCacheFolder(cacheFolder ?? null, platform);
    replica = await Replica.restore(objects, { path: folder.path, pageSize });
    if (replica.pageCount === 0) throw storeMissing();
    const removeAll = async (): Promise<void> => {
      folder?.remove();
      await objects.close();
    };
    return viewOf(replica, platform, { requests: () => requestsOf(counted.counts, prices), removeAll });
  } catch (error) {
    replica?.close();
    folder?.remove();
    await objects.close();
    const { temporaryFolder } = platform;
    throw cacheError(cacheFolder ?? temporaryFolder, bucketError(error, "did-not-happen"));
  }
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
  const follower = new Follower(replica, platform);
  let session = openCopy(replica);
  /** What the session has read: its pages are of this record. */
  let shown = replica.n;
  const schemaVersion = readSchemaVersion(session.database, replica.path);
  /** When a record was last seen to come, and since when that can be told. */
  const heard: Heard = { atUs: null, sinceUs: platform.monotonicUs() };
  const look = async (): Promise<void> => {
    if (follower.sinceLookMs < lookMs) return;
    const isLate = follower.sinceLookMs > silentMs;
    try {
      const isNew = await follower.look();
      const nowUs = platform.monotonicUs();
      if (isLate) heard.sinceUs = nowUs;
      if (isNew) heard.atUs = isLate ? null : nowUs;
    } catch (error) {
      throw cacheError(replica.path, bucketError(error, "did-not-happen"));
    } finally {
      // Also after a look that failed halfway. A connection does not see what was written past it.
      if (shown !== replica.n) {
        closeSession(session);
        session = openCopy(replica);
        shown = replica.n;
      }
    }
  };
  const refusal = (): MillraceError => readOnly(replica, stateOf(replica, platform, heard));
  /**
   * A registration of a process lives for some seconds, and a writer with nothing to do puts a record only every ten.
   * So as long as it lives the copy is read as of its last record.
   */
  const timeOf = (machineNow: number): number =>
    stateOf(replica, platform, heard) === "writing" ? Math.min(machineNow, replica.writerAt) : machineNow;
  const run = async (calls: readonly Call[], machineNow: number): Promise<CommitOutcome> => {
    await look();
    const reads = calls.filter(({ operation }) => isRead(operation)).map(withoutVersion);
    const done = commitCalls(session, reads, timeOf(machineNow));
    let read = 0;
    const outcomes = calls.map(({ operation }): CallOutcome =>
      isRead(operation) ? (done.outcomes[read++] as CallOutcome) : { kind: "error", error: refusal() },
    );
    return { ...done, outcomes };
  };
  const executor = openExecutor({
    runner: { run, close: () => closeSession(session) },
    ...{ platform, clock, path: replica.path, busyTimeoutMs },
    onCommitted: () => undefined,
  });
  const watch = openWatch({ platform, clock, wakeFile: noWakeFile, executor: () => executor });
  const call = (operation: Call["operation"], request: unknown = null) =>
    executor.call(operation, request) as Promise<never>;
  const operation =
    (name: Call["operation"]) =>
    (request?: unknown): Promise<never> =>
      call(name, request);
  const describeView = (): StoreView => {
    const ageMs = Math.max(0, platform.now() - replica.writerAt);
    const writer = stateOf(replica, platform, heard);
    const sentences = {
      closed: "No process writes to it.",
      gone: `${capital(writerName(replica))} wrote to it and is gone.`,
      writing: `${capital(writerName(replica))} writes to it.`,
      silent: `${capital(writerName(replica))} wrote to it and has fallen silent.`,
    };
    const lagMs = Math.round(follower.sinceLookMs);
    const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
    const sentence = `A view of the bucket as it was ${seconds(lagMs)} ago; its last record is ${seconds(ageMs)} old. ${sentences[writer]}`;
    return { lagMs, recordAgeMs: Math.round(ageMs), writer, sentence };
  };
  return {
    async describe(): Promise<StoreDescription> {
      // Looks first, so that all of it is of now.
      await call("readNow");
      return {
        kind: "bucket",
        durability: "strict",
        acknowledged: "This is a view of the bucket: it acknowledges nothing.",
        epoch: replica.epoch,
        now: clock.now(),
        schemaVersion,
        capabilities: { transactions: false, processes: "one" },
        view: describeView(),
        warnings: [],
        requests: requests(),
      };
    },
    isView: true,
    submit: operation("submit"),
    claim: operation("claim"),
    heartbeat: operation("heartbeat"),
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
    countJobs: operation("countJobs"),
    readRoutes: operation("readRoutes"),
    readFeed: operation("readFeed"),
    readLogs: operation("readLogs"),
    readFrames: operation("readFrames"),
    readJournal: operation("readJournal"),
    prune: operation("prune"),
    auditIndexes: operation("auditIndexes"),
    readUnreadable: operation("readUnreadable"),
    deleteUnreadable: operation("deleteUnreadable"),
    readHeads: operation("readHeads"),
    ...laterOperations,
    watch: (listener) => watch.add(listener),
    inTransaction() {
      throw refusal();
    },
    async close() {
      watch.close();
      await executor.close();
      replica.close();
      await removeAll();
    },
  };
}

/** Nobody wakes a view, and it wakes nobody: it looks by itself. */
const noWakeFile: WakeFile = {
  wake: () => undefined,
  wakeAfter: () => undefined,
  listen: () => null,
  close: () => undefined,
};

/** SQLite's number of the version begins anew with each connection, so it would hide news. */
function withoutVersion(call: Call): Call {
  if (call.operation !== "readNews") return call;
  return { ...call, request: { ...(call.request as object), version: null } };
}

/** Without locks and without a write-ahead log: nobody writes to the file by way of SQLite. */
function openCopy(replica: Replica): Session {
  const { path } = replica;
  const url = pathToFileURL(path);
  url.searchParams.set("immutable", "1");
  const database = new DatabaseSync(url, { readOnly: true, enableForeignKeyConstraints: false });
  readSchemaVersion(database, path);
  const epoch = Number(readMeta(database, "epoch") ?? 1);
  return openSession(database, { path, epoch, opener: null, identity: null });
}

function readOnly(replica: Replica, writer: StoreView["writer"]): MillraceError {
  const name = writerName(replica);
  const sentence =
    writer === "writing"
      ? `A view of a bucket can only be read, so nothing was changed. ${capital(name)} writes to the bucket: make the change there. Or take the bucket over, which ends that process: whenHeld: "take" (on the command line --take).`
      : `A view of a bucket can only be read, so nothing was changed. ${writer === "silent" ? `${capital(name)} may still write to the bucket, but has fallen silent` : "No process writes to the bucket"}: open it to write with whenHeld: "take" (on the command line --take).`;
  return new MillraceError("store-read-only", sentence);
}

/**
 * A process of this machine can be asked for. Of another one the log tells: by when records came, or, as long as it
 * has not been watched for that long, by the writer's clock.
 */
function stateOf(replica: Replica, platform: Platform, { atUs, sinceUs }: Heard): StoreView["writer"] {
  if (replica.isFree) return "closed";
  if (isWriterRunning(replica, platform) === false) return "gone";
  const agoMs = (us: number): number => (platform.monotonicUs() - us) / 1000;
  if (atUs !== null) return agoMs(atUs) <= silentMs ? "writing" : "silent";
  const isOld = agoMs(sinceUs) > silentMs || platform.now() - replica.writerAt > silentMs;
  return isOld ? "silent" : "writing";
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
