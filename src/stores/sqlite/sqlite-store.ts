/**
 * The embedded store: one SQLite file, shared by any number of processes, or a database in memory for tests. Nothing
 * to install, strictly durable unless asked otherwise. This file puts the parts together; each operation has its own.
 *
 *  sqlite-store ─► executor (calls of a flush) ─► runner (inline or thread) ─► commit (one transaction) ─► operations
 *               └► watch (hints), wake file        └► open-file, migrate, epoch (once, at the start)
 */
import { realpathSync } from "node:fs";
import { basename } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { MillraceError } from "../../model/error.ts";
import type { Platform } from "../../platform/platform.ts";
import type { Store, StoreDescription } from "../../store/store.ts";
import { laterOperations } from "../../store/later-version.ts";
import { openWakeFile } from "./feed/wake-file.ts";
import { enterEpoch, setEpoch } from "./connection/epoch.ts";
import type { Entry } from "./connection/epoch.ts";
import { isBusy, storeError } from "./connection/errors.ts";
import { openExecutor } from "./connection/executor.ts";
import type { Landing, Runner } from "./connection/executor.ts";
import type { Call, Session } from "./connection/commit.ts";
import { closeSession, commitCalls, openSession } from "./connection/commit.ts";
import { transactionStore } from "./connection/in-transaction.ts";
import { migrate, readSchemaVersion } from "./connection/migrate.ts";
import {
  checkFile,
  configure,
  inlineSleepMs,
  memoryPath,
  openDatabase,
  threadSleepMs,
} from "./connection/open-file.ts";
import type { FileSettings } from "./connection/open-file.ts";
import { openFileIdentity } from "./connection/file-identity.ts";
import { threadRunner } from "./connection/runner-thread.ts";
import type { StartThread } from "./connection/runner-thread.ts";
import { schemaVersion } from "./connection/schema.ts";
import { openStoreClock } from "../../store/store-clock.ts";
import { openWatch } from "./feed/watch.ts";

export interface SqliteOptions {
  /** A file, or ":memory:". */
  readonly path: string;
  readonly platform: Platform;
  /** Strict (default): an acknowledged write survives power loss. Relaxed: it survives the process, not the machine. */
  readonly durability?: "strict" | "relaxed";
  /** Whether SQLite works in the caller's thread or in one of its own; a store in memory is always inline. */
  readonly executor?: "inline" | "thread";
  /** Another way to that thread: tests serve hundreds of stores by one. */
  readonly startThread?: StartThread;
  /**
   * How long a call waits for another connection's write lock before it is refused as store-busy; 10 s unless said
   * otherwise.
   */
  readonly busyTimeoutMs?: number;
  readonly log?: CommitLog;
}

/** The file is only a copy of what lands in a log elsewhere (stores/bucket), and no other process opens it. */
export interface CommitLog {
  /** The store's epoch, which that log gives. */
  readonly epoch: number;
  /** After the tables are there, before the first call. */
  readonly open: (database: DatabaseSync) => Landing;
}

/** Operations that need nothing but their request. */
const passedOperations = [
  ...(["claim", "extendIfLeased", "recordIfLeased", "changeIf", "promoteDue", "readDue"] as const),
  ...(["putGates", "readGates", "putDocs"] as const),
  ...([
    "readDocs",
    "readDueDocs",
    "readJobs",
    "findJobs",
    "countJobs",
    "readRoutes",
    "readFeed",
    "readLogs",
    "readFrames",
    "readJournal",
  ] as const),
  ...(["prune", "auditIndexes", "readUnreadable", "deleteUnreadable"] as const),
] as const satisfies readonly (keyof Store & Call["operation"])[];

const defaultBusyMs = 10_000;
const openRetryMs = { min: 2, max: 40 };

export async function openSqliteStore(options: SqliteOptions): Promise<Store> {
  const {
    platform,
    durability = "strict",
    executor: place = "inline",
    busyTimeoutMs = defaultBusyMs,
  } = options;
  const isMemory = options.path === memoryPath;
  const checked = isMemory ? memoryPath : checkFile(options.path);
  const { log } = options;
  const isShared = !isMemory && log === undefined;
  const settings: FileSettings = {
    path: checked,
    durability: log === undefined ? durability : "logged",
    lockSleepMs: inlineSleepMs,
  };
  const { database, entry } = await openFirst(settings, platform, busyTimeoutMs, log?.epoch ?? null);
  const landing = log?.open(database) ?? null;
  const path = isMemory ? memoryPath : realpathSync(checked);

  const clock = openStoreClock(platform);
  const searches = { vainAt: null };
  const identity = isShared ? openFileIdentity(path, clock.now()) : null;

  const runner =
    place === "thread" && isShared
      ? await threadRunner(
          {
            settings: { path, durability, lockSleepMs: threadSleepMs },
            ...entry,
            openedAt: clock.now(),
          },
          options.startThread,
        ).finally(() => database.close())
      : inlineRunner(openSession(database, { path, ...entry, identity }));

  const wakeFile = isShared ? openWakeFile(platform, path) : null;
  const watch = openWatch({ platform, clock, wakeFile, executor: () => executor });
  const executor = openExecutor({
    runner,
    platform,
    clock,
    path,
    busyTimeoutMs,
    onCommitted: (commit) => watch.emitOwn(commit),
    landing,
  });
  const call = (operation: Call["operation"], request: unknown = null) =>
    executor.call(operation, request) as Promise<never>;
  const passedOn = passedOperations.map((operation) => [
    operation,
    (request?: unknown) => call(operation, request),
  ]);

  return {
    async describe(): Promise<StoreDescription> {
      const now: number = await call("readNow");
      return {
        kind: "sqlite",
        durability: isMemory ? "memory" : durability,
        epoch: entry.epoch,
        now,
        aheadMs: clock.aheadMs(),
        schemaVersion,
        capabilities: { transactions: isShared, processes: isShared ? "many" : "one" },
        warnings: warningsOf(isMemory, durability),
      };
    },
    async submit(units) {
      return call("submit", units);
    },
    async settleIfLeased(settles) {
      return call("settleIfLeased", settles);
    },
    ...(Object.fromEntries(passedOn) as Pick<Store, (typeof passedOperations)[number]>),
    ...laterOperations,
    heartbeat: (request) => call(request.puts.length === 0 ? "readHeartbeat" : "heartbeat", request),
    readHeads: () => call("readHeads"),
    async measure() {
      return [{ server: basename(path), sizeBytes: await call("readSize"), connections: null }];
    },
    watch: (listener) => watch.add(listener),
    inTransaction: (connection) =>
      transactionStore(connection, { path, epoch: entry.epoch, clock, identity, searches, wakeFile }),
    async close() {
      watch.close();
      await executor.close();
      wakeFile?.close();
    },
  };
}

/** In the caller's own thread: the shortest way for a single call, and the only one for a store in memory. */
function inlineRunner(session: Session): Runner {
  return {
    run: (calls, machineNow) => commitCalls(session, calls, machineNow),
    close: () => closeSession(session),
  };
}

/**
 * Checks, migrates and enters the file. Another process that holds the lock meanwhile is waited for, without blocking
 * this thread.
 */
async function openFirst(
  settings: FileSettings,
  platform: Platform,
  busyTimeoutMs: number,
  logEpoch: number | null,
) {
  const database = openDatabase(settings);
  const startUs = platform.monotonicUs();
  for (;;) {
    try {
      readSchemaVersion(database, settings.path);
      configure(database, settings);
      migrate(database, settings.path);
      const isRelaxed = settings.durability === "relaxed" && settings.path !== memoryPath;
      const entry: Entry =
        logEpoch === null ? enterEpoch(database, platform, isRelaxed) : setEpoch(database, logEpoch);
      return { database, entry };
    } catch (error) {
      const waitedMs = (platform.monotonicUs() - startUs) / 1000;
      if (!isBusy(error) || waitedMs >= busyTimeoutMs) {
        const isBehind = isBusy(error) && isVersionBehind(database, settings.path);
        database.close();
        throw isBehind
          ? migrationRunning(settings.path, busyTimeoutMs, error)
          : storeError(error, settings.path);
      }
      const delayMs = openRetryMs.min + platform.random() * (openRetryMs.max - openRetryMs.min);
      await new Promise<void>((resolve) => void platform.setTimer(delayMs, resolve, true));
    }
  }
}

function isVersionBehind(database: DatabaseSync, path: string): boolean {
  try {
    return readSchemaVersion(database, path) < schemaVersion;
  } catch {
    return true;
  }
}

function migrationRunning(path: string, waitedMs: number, cause: unknown): MillraceError {
  const sentence = `Another process is migrating ${path}, or holds its write lock, and did not finish within ${waitedMs} ms. Open it again later.`;
  return new MillraceError("migration-running", sentence, { cause });
}

function warningsOf(isMemory: boolean, durability: "strict" | "relaxed"): string[] {
  if (isMemory) return ["The store is in memory: everything in it ends with this process."];
  if (durability === "relaxed")
    return ["Durability is relaxed: a power loss may take the last moments of acknowledged work."];
  return [];
}
