/**
 * The store on a shared database: any number of processes on one Postgres. Its commits are the durability, and the
 * database's clock is the time. This file puts the parts together. Each operation has a file in the folder of its
 * feature (`runs/claim.ts`); the SQL of the function that it calls is in the same folder (`runs/claim.sql.ts`).
 *
 *  postgres-store ─► operations (one call each) ─► database (pool, repeats) ─► versioned functions in the schema
 *                 └► watch (hints)               └► server-check, migrate (once, at the start)
 */
import { MillraceError } from "../../model/error.ts";
import type { Platform } from "../../platform/platform.ts";
import { bindOperations } from "../../store/bind-operations.ts";
import { laterOperations } from "../../store/later-version.ts";
import type { Store, StoreDescription } from "../../store/store.ts";
import { retryingUnreadable, readUnreadable, deleteUnreadable } from "./upkeep/unreadable.ts";
import type { Calls } from "./functions/call.ts";
import { changeIf } from "./jobs/change.ts";
import { claim } from "./runs/claim.ts";
import { checkCallTimeout, openDatabase } from "./connection/database.ts";
import { heartbeat, putDocs, readDocs, readDueDocs } from "./documents/documents.ts";
import { isPool, loadDriver } from "./connection/driver.ts";
import { promoteDue, readDue } from "./upkeep/due.ts";
import { extendIfLeased } from "./runs/extend.ts";
import { recordIfLeased } from "./runs/record.ts";
import { readFrames } from "./output/frames.ts";
import { readJournal } from "./journal/journal.ts";
import { putGates, readGates } from "./limits/gates.ts";
import { noFloors, openFloors } from "./runs/floors.ts";
import { openTransactions } from "./connection/in-transaction.ts";
import { measureDatabase, readHeads } from "./connection/measure.ts";
import { migrate, quoted, schemaVersion } from "./connection/migrate.ts";
import { findJobs, readFeed, readJobs, readPackedFeed, readLogs, countJobs } from "./jobs/read.ts";
import { openRoutes } from "./jobs/routes.ts";
import { checkServer, enterEpoch } from "./connection/server-check.ts";
import { settleIfLeased } from "./runs/settle.ts";
import { checkListenUrl, checkSchema, readStoreUrl } from "./connection/store-url.ts";
import { submit } from "./jobs/submit.ts";
import { auditIndexes, prune } from "./upkeep/prune.ts";
import { openWake } from "./feed/watch.ts";

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database?schema=name&listenUrl=…`. */
  readonly url?: string;
  /** Instead of a URL: a pool of the `pg` driver, which the caller closes. */
  readonly pool?: unknown;
  readonly platform: Platform;
  /** The schema of the tables; created if it does not exist. */
  readonly schema?: string;
  /** Strict (default): an acknowledged write survives a crash of the server. Relaxed: the last moments may be lost. */
  readonly durability?: "strict" | "relaxed";
  /** The most connections, not counting the one that listens. */
  readonly poolMax?: number;
  /**
   * A direct connection for LISTEN, needed if `url` leads to a pooler. Null (in a URL: none) does not listen, so
   * changes of other processes are found only by looking at the feed.
   */
  readonly listenUrl?: string | null;
  /** How long a call may take before its connection is given up; its outcome is then unknown. */
  readonly callTimeoutMs?: number;
  /** How long an opening waits for another process's migration. */
  readonly migrateWaitMs?: number;
  /** "platform" is for tests, which drive time by their platform's clock. */
  readonly clock?: "database" | "platform";
}

const defaults = {
  poolMax: 10,
  callTimeoutMs: 60_000,
  migrateWaitMs: 60_000,
};

export async function openPostgresStore(options: PostgresOptions): Promise<Store> {
  const { platform, durability = "strict", clock = "database" } = options;
  const { url, schema: schemaName, listenUrl } = readPlace(options);
  const callTimeoutMs = checkCallTimeout(options.callTimeoutMs ?? defaults.callTimeoutMs);
  const driver = await loadDriver();
  const { pool, poolMax = defaults.poolMax } = options;
  if (pool !== undefined && !isPool(pool))
    throw new MillraceError("invalid-option", "pool must be a Pool of the driver pg.");
  const database = openDatabase({ driver, url, pool, poolMax, name: "millrace", platform, callTimeoutMs });
  const schema = quoted(schemaName);
  const { epoch, commit, warnings } = await enter().catch(async (error: unknown) => {
    await database.close().catch(() => undefined);
    throw error;
  });

  async function enter(): Promise<{ epoch: number; commit: Calls["commit"]; warnings: readonly string[] }> {
    const facts = await checkServer(database, durability);
    await migrate(database, schemaName, options.migrateWaitMs ?? defaults.migrateWaitMs);
    return { ...facts, epoch: await enterEpoch(database, schema) };
  }

  const channel = `${schemaName}_hint`;
  const wake = openWake({
    platform,
    database,
    channel,
    readFeed: (after, max) => readPackedFeed(calls, { after, max }),
    connect: listenUrl === null ? null : () => database.connect("millrace listener", listenUrl),
  });

  let lastNow = 0;
  const bare: Calls = {
    schema,
    commit,
    isInside: false,
    // Never earlier than the last time given, even if the machine's clock goes back.
    now: () => (clock === "database" ? null : (lastNow = Math.max(lastNow, platform.now()))),
    write: database.write,
    read: database.read,
    emit: wake.emit,
    ride: wake.ride,
  };
  const calls: Calls = { ...bare, write: retryingUnreadable(bare, platform) };
  const routes = openRoutes(calls);
  const floors = clock === "platform" ? noFloors : openFloors(platform);
  let closing: Promise<void> | null = null;

  return {
    claimsAhead: true,
    claimsOvertake: true,
    async describe(): Promise<StoreDescription> {
      const text = `SELECT ${schema}.begin_v1($1, NULL), value FROM ${schema}.meta WHERE name = 'epoch'`;
      const [row] = await database.read(text, [calls.now()]);
      return {
        kind: "postgres",
        durability,
        epoch: Number(row?.[1] ?? epoch),
        now: Number(row?.[0]),
        schemaVersion,
        capabilities: { transactions: true, processes: "many" },
        aheadMs: 0,
        warnings,
      };
    },
    readHeads: () => readHeads(database, schema, calls.now()),
    measure: () => measureDatabase(database, schemaName),
    async submit(units) {
      return submit(calls, units);
    },
    claim: (request) => claim(calls, floors, request),
    async settleIfLeased(settles) {
      return settleIfLeased(calls, settles);
    },
    readJobs: (ids) => readJobs(calls, routes, ids),
    findJobs: (request) => findJobs(calls, routes, request),
    countJobs: () => countJobs(calls, routes),
    readRoutes: () => routes.readAll(),
    ...bindOperations(calls, {
      ...{
        extendIfLeased,
        recordIfLeased,
        changeIf,
        promoteDue,
        readDue,
        putGates,
        readGates,
        heartbeat,
        putDocs,
        readDocs,
        readDueDocs,
        readFeed,
        readLogs,
        readFrames,
        readJournal,
      },
      ...{ prune, auditIndexes, readUnreadable, deleteUnreadable },
    }),
    ...laterOperations,
    watch: (watcher) => wake.add(watcher),
    announceTaken: wake.announceTaken,
    inTransaction: openTransactions({ calls, where: database.where, channel }),
    close() {
      closing ??= wake.close().then(() => database.close());
      return closing;
    },
  };
}

/** The place of the store: options take precedence over the URL. */
function readPlace(options: PostgresOptions): {
  url: string | undefined;
  schema: string;
  listenUrl: string | null | undefined;
} {
  const { pool, schema, listenUrl } = options;
  if (pool !== undefined && options.url !== undefined)
    throw new MillraceError("invalid-option", "Give either a URL or a pool, not both.");
  const named = pool === undefined ? readStoreUrl(options.url) : null;
  const direct = listenUrl === undefined ? named?.listenUrl : listenUrl;
  return {
    url: named?.url,
    schema: checkSchema(schema ?? named?.schema),
    listenUrl: typeof direct === "string" ? checkListenUrl(direct) : direct,
  };
}
