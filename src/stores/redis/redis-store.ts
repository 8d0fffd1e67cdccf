/**
 * The store on Redis or Valkey: any number of processes on one server, by the server's clock, at the durability of its append-only file. This file
 * puts the parts together; each operation has its own, and its function in lua/.
 *
 *  redis-store ─► operations (one call each) ─► connection (pipelined) ─► one versioned library of functions on the server
 *              └► watch (hints) ─► listener   └► server-check, enter (once, and after a restart or failover)
 */
import { MillraceError } from "../../model/error.ts";
import type { Platform } from "../../platform/platform.ts";
import type { Store, StoreDescription } from "../../store/store.ts";
import { openWatch } from "../../store/watch.ts";
import { checkSettles, checkUnits, laterOperations } from "../../store/later-version.ts";
import { RouteBook } from "./call.ts";
import type { Calls } from "./call.ts";
import { changeIf } from "./change.ts";
import { claim } from "./claim.ts";
import { openConnection } from "./connection.ts";
import type { Connection } from "./connection.ts";
import { putDocs, readDocs } from "./docs.ts";
import { clientOptions, isClient, loadDriver } from "./driver.ts";
import type { RedisClient } from "./driver.ts";
import { promoteDue, readDue } from "./due.ts";
import { extendIfLeased, recordIfLeased } from "./extend.ts";
import { layoutVersion } from "./library.ts";
import { readMessage } from "./hint-text.ts";
import { openListener } from "./listener.ts";
import { findJobs, readFeed, readJobs, readPackedFeed, readTrail, tallyJobs } from "./read.ts";
import { checkServer } from "./server-check.ts";
import type { ServerFacts } from "./server-check.ts";
import { settleIfLeased } from "./settle.ts";
import { submit } from "./submit.ts";
import { auditIndexes, prune } from "./upkeep.ts";

export interface RedisOptions {
  /** `redis://user:password@host:port/database?prefix=name`; `rediss:` for TLS, `valkey:` and `valkeys:` mean the same. */
  readonly url?: string;
  /** Instead of a URL: a client of the driver ioredis or iovalkey. It is copied, and the caller closes it. */
  readonly client?: unknown;
  readonly platform: Platform;
  /** What all keys begin with, in braces. */
  readonly prefix?: string;
  /** Left out: what the server gives. Strict: every acknowledged write is on disk. Relaxed: the server must keep some file. */
  readonly durability?: "strict" | "relaxed";
  /** Opens although the server may throw keys away when its memory is full. */
  readonly allowEviction?: boolean;
  /** The longest a call may take before its connection is cut and its outcome is unknown. Default: 30 s. */
  readonly callTimeoutMs?: number;
  /** Tests drive time by their platform's clock. */
  readonly clock?: "server" | "platform";
}

const defaultPrefix = "millrace";
/** All keys of a partition share its hash tag; there is one partition. */
const partition = 0;
const defaultCallTimeoutMs = 30_000;

export async function openRedisStore(options: RedisOptions): Promise<Store> {
  const { platform, clock = "server", allowEviction = false } = options;
  const { callTimeoutMs = defaultCallTimeoutMs } = options;
  const { url, prefix: named } = readUrl(options);
  const tag = `{${checkPrefix(options.prefix ?? named ?? defaultPrefix)}:${partition}}`;
  const where = nameOf(url);
  const connect = await clientMaker(options.client, url, callTimeoutMs);
  const sender = Buffer.from(platform.randomBytes(9)).toString("base64url");
  let lastNow = 0;
  // Never behind the last time given, whatever the machine's clock does.
  const now = (): number | null =>
    clock === "server" ? null : (lastNow = Math.max(lastNow, platform.now()));
  const wishes = { where, durability: options.durability ?? null, allowEviction };
  let facts: ServerFacts | null = null;
  const check = async (ask: Connection["ask"]): Promise<ServerFacts> =>
    (facts = await checkServer(ask, wishes));
  const opening = {
    client: connect(),
    platform,
    tag,
    sender,
    where,
    now,
    callTimeoutMs,
    check,
    partitions: null,
  };
  const connection = openConnection(opening);
  await connection.enter().catch(async (error: unknown) => {
    await connection.close();
    throw error;
  });

  const watch = openWatch({
    timers: platform,
    readFeed: (after, max) => readPackedFeed({ connection }, { after, max }),
    listen: ({ heard, changed }) =>
      openListener({
        client: connect(),
        platform,
        callTimeoutMs,
        channel: `${tag}:hint`,
        heard(message) {
          const { by, hints } = readMessage(message);
          if (by !== sender) heard(hints);
        },
        began: changed,
      }),
  });
  const calls: Calls = { connection, routes: new RouteBook(), tell: (hints) => watch.tellOwn(hints) };
  let closing: Promise<void> | null = null;

  return {
    async describe(): Promise<StoreDescription> {
      const [at, epoch] = (await connection.read("mr1_now", [])) as [string, string];
      const { durability, acknowledged, warnings } = facts as ServerFacts;
      return {
        kind: "redis",
        durability,
        acknowledged,
        epoch: Number(epoch),
        now: Number(at),
        schemaVersion: layoutVersion,
        capabilities: { transactions: false, processes: "many" },
        warnings,
      };
    },
    async submit(units) {
      checkUnits(units);
      return submit(calls, units);
    },
    claim: (request) => claim(calls, request),
    async settleIfLeased(settles) {
      checkSettles(settles);
      return settleIfLeased(calls, settles);
    },
    extendIfLeased: (request) => extendIfLeased(calls, request),
    recordIfLeased: (writes) => recordIfLeased(calls, writes),
    changeIf: (changes) => changeIf(calls, changes),
    promoteDue: (request) => promoteDue(calls, request),
    readDue: (request) => readDue(calls, request),
    putDocs: (puts) => putDocs(calls, puts),
    readDocs: (request) => readDocs(calls, request),
    readJobs: (ids) => readJobs(calls, ids),
    findJobs: (request) => findJobs(calls, request),
    tallyJobs: () => tallyJobs(calls),
    readFeed: (request) => readFeed(calls, request),
    readTrail: (request) => readTrail(calls, request),
    prune: (request) => prune(calls, request),
    auditIndexes: (request) => auditIndexes(calls, request),
    ...laterOperations,
    watch: (listener) => watch.add(listener),
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
}

async function clientMaker(
  given: unknown,
  url: string | undefined,
  callTimeoutMs: number,
): Promise<() => RedisClient> {
  const own = clientOptions(callTimeoutMs);
  if (given !== undefined) {
    if (isClient(given)) return () => given.duplicate(own);
    throw new MillraceError("invalid-option", "client must be a client of the driver ioredis or iovalkey.");
  }
  const { Redis } = await loadDriver();
  return () => new Redis(url as string, own);
}

function checkPrefix(prefix: string): string {
  if (/^[^{}\p{Cc}]{1,100}$/u.test(prefix)) return prefix;
  const sentence = "prefix must have 1 to 100 characters, without braces and control characters.";
  throw new MillraceError("invalid-option", sentence);
}

/** The prefix may be named in the URL; the driver knows neither that parameter nor the schemes of Valkey. */
function readUrl({ url, client }: RedisOptions): { url: string | undefined; prefix: string | null } {
  if (client !== undefined && url === undefined) return { url: undefined, prefix: null };
  if (url === undefined || !/^(rediss?|valkeys?):/i.test(url) || !URL.canParse(url)) {
    const sentence = 'A Redis store is named by a URL such as "redis://user:password@host:6379/0".';
    throw new MillraceError("unknown-store", sentence);
  }
  if (client !== undefined)
    throw new MillraceError("invalid-option", "Give either a URL or a client, not both.");
  const parsed = new URL(url.replace(/^valkey/i, "redis"));
  const prefix = parsed.searchParams.get("prefix");
  parsed.searchParams.delete("prefix");
  return { url: parsed.href, prefix };
}

/** For error messages: where, but never the password. */
function nameOf(url: string | undefined): string {
  if (url === undefined) return "The server of the given client";
  const { hostname, port } = new URL(url);
  return `The server ${hostname || "localhost"}:${port || "6379"}`;
}
