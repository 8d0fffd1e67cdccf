/**
 * One partition of the store: the whole contract on the keys of one hash tag. This file puts the parts together; each
 * operation has its own, and its function in lua/. A store of one partition is this and nothing else.
 *
 * partition ─► operations (one call each) ─► connection (pipelined) ─► one versioned library of functions on the server
 *           └► watch (hints) ─► listener   └► server-check, enter (once, and after a restart or failover)
 */
import { MillraceError } from "../../model/error.ts";
import { bindOperations } from "../../store/bind-operations.ts";
import type { Hints } from "../../store/watch/hints.ts";
import { laterOperations } from "../../store/later-version.ts";
import type { Store, StoreDescription } from "../../store/store.ts";
import { openWatch } from "../../store/watch/watch.ts";
import { readUnreadable, deleteUnreadable } from "./upkeep/unreadable.ts";
import type { Calls } from "./connection/call.ts";
import { changeIf } from "./jobs/change.ts";
import { claim } from "./runs/claim.ts";
import { openConnection } from "./connection/connection.ts";
import type { Connection, SharedOptions } from "./connection/connection.ts";
import { heartbeat, putDocs, readDocs, readDueDocs } from "./documents/documents.ts";
import type { RedisClient } from "./connection/driver.ts";
import { promoteDue, readDue } from "./upkeep/due.ts";
import { readFrames } from "./output/frames.ts";
import { readJournal } from "./durable/read-journal.ts";
import { extendIfLeased } from "./runs/extend.ts";
import { recordIfLeased } from "./runs/record.ts";
import { putGates, readGates } from "./limits/gates.ts";
import { readMessage, writeTaken } from "./feed/hint-text.ts";
import { layoutVersion } from "./library/library.ts";
import { openListener } from "./feed/listener.ts";
import { measureServer } from "./upkeep/measure.ts";
import {
  findJobs,
  readAllRoutes as readRoutes,
  readFeed,
  readJobs,
  readHeads,
  readPackedFeed,
  readLogs,
  countJobs,
} from "./jobs/read.ts";
import { readRoute } from "./packing/route-text.ts";
import { checkServer } from "./connection/server-check.ts";
import type { ServerFacts, ServerWishes } from "./connection/server-check.ts";
import { settleIfLeased } from "./runs/settle.ts";
import { submit } from "./jobs/submit.ts";
import { fieldEnd } from "./packing/value-text.ts";
import { FlushCall } from "./connection/flush-call.ts";
import { auditIndexes } from "./upkeep/audit.ts";
import { prune } from "./upkeep/prune.ts";

const operations = {
  ...{
    submit,
    claim,
    heartbeat,
    settleIfLeased,
    extendIfLeased,
    recordIfLeased,
    changeIf,
    promoteDue,
    readDue,
  },
  ...{
    putGates,
    readGates,
    putDocs,
    readDocs,
    readDueDocs,
    readJobs,
    findJobs,
    countJobs,
    readRoutes,
    readFeed,
    readLogs,
    readFrames,
    readJournal,
  },
  ...{ prune, auditIndexes, readUnreadable, deleteUnreadable },
};

/** What all partitions of a store share. */
export interface PartitionOptions extends SharedOptions {
  readonly prefix: string;
  readonly wishes: ServerWishes;
}

export interface Opening {
  readonly number: number;
  /** How many there must be; in words of enter.lua.ts. */
  readonly wanted: () => string;
  readonly client: RedisClient;
  readonly connectListener: () => RedisClient;
}

export interface PreparedPartition {
  /** Enters by itself with the first call where that was not done, or failed. */
  readonly store: Store;
  /** Answers how many partitions the whole store has. */
  readonly enter: () => Promise<number>;
}

export function preparePartition(options: PartitionOptions, opening: Opening): PreparedPartition {
  const { platform, callTimeoutMs, sender, wishes } = options;
  const { client, wanted } = opening;
  const tag = tagOf(options.prefix, opening.number);
  let facts: ServerFacts | null = null;
  const check = async (ask: Connection["ask"]): Promise<ServerFacts> =>
    (facts = await checkServer(ask, wishes));
  const connection = openConnection({ ...options, client, tag, check, partitions: wanted });

  const own = `${sender}${fieldEnd}`;
  const watch = openWatch({
    timers: platform,
    watches: () => connection.partitions(),
    readFeed: (after, max) => readPackedFeed({ connection }, { after, max }),
    readRoute,
    listen: ({ heard, changed }) =>
      openListener({
        client: opening.connectListener(),
        platform,
        callTimeoutMs,
        channel: `${tag}:hint`,
        heard(message) {
          if (!message.startsWith(own)) heard(readMessage(message));
        },
        began: changed,
      }),
  });
  const hint = (hints: Hints): void => watch.emitOwn(hints);
  const calls: Calls = { connection, flush: new FlushCall(connection, hint), hint };
  let closing: Promise<void> | null = null;

  const store: Store = {
    claimsAhead: true,
    async describe(): Promise<StoreDescription> {
      const [at, epoch, ahead] = (await connection.read("mr1_now", [])) as [string, string, string];
      const { durability, acknowledged, warnings } = facts as ServerFacts;
      return {
        kind: "redis",
        durability,
        acknowledged,
        epoch: Number(epoch),
        now: Number(at),
        aheadMs: Number(ahead),
        ...(ahead === "0" ? {} : { serverNow: Number(at) - Number(ahead) }),
        schemaVersion: layoutVersion,
        capabilities: { transactions: false, processes: "many" },
        warnings,
      };
    },
    readHeads: () => readHeads(calls),
    measure: () => measureServer((command, args) => connection.ask(command, args)),
    ...bindOperations(calls, operations),
    ...laterOperations,
    watch: (listener) => watch.add(listener),
    announceTaken(routes) {
      // Lost with a connection, as any hint.
      connection.ask("PUBLISH", [`${tag}:hint`, writeTaken(sender, routes)]).catch(() => undefined);
    },
    inTransaction() {
      const sentence =
        "A store on Redis has no transaction that a caller could share: it is one of an SQLite or Postgres database. Enqueue after your own commit.";
      throw new MillraceError("not-in-transaction", sentence);
    },
    close() {
      closing ??= watch.close().then(() => connection.close());
      return closing;
    },
  };
  return { store, enter: () => connection.enter() };
}

/** All keys of a partition begin with it, so that they live in one slot of a cluster. */
export function tagOf(prefix: string, number: number): string {
  return `{${prefix}:${number}}`;
}
