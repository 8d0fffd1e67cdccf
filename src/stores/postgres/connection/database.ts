/**
 * The store's connections: one statement per call, without anything that a session must remember, so that a pooler in
 * transaction mode may stand in between. A deadlock or serialisation failure is repeated here a few times; trouble with
 * the connection is the caller's to repeat, because only the caller can mark a call as a repeat.
 */
import { MillraceError } from "../../../model/error.ts";
import type { Platform } from "../../../platform/platform.ts";
import type { PgDriver, PgListener, PgPool, PgPoolClient } from "./driver.ts";
import { isConnectionLost, isNameUnknown, isTooLate, isWorthRepeating, storeError } from "./errors.ts";
import { cancelCall, forgetNames, hasRun, isDirect, rawTypes, runStatement } from "./statement.ts";
import { nameOf } from "./store-url.ts";

export type Value = string | number | boolean | null | readonly string[];
export type Row = (string | null)[];

export interface Database {
  /** How error messages name it. */
  readonly where: string;
  /**
   * A statement that may change something. `timeoutMs`: where its answer is of no use for as long as that of others.
   */
  readonly write: (text: string, values?: readonly Value[], timeoutMs?: number) => Promise<Row[]>;
  readonly read: (text: string, values?: readonly Value[]) => Promise<Row[]>;
  /** Several statements on one connection, for migrations. */
  session(use: (run: (text: string) => Promise<Row[]>) => Promise<void>): Promise<void>;
  /** A connection beside those of the pool; to the same place unless another URL is given. */
  connect(name: string, url?: string): PgListener;
  close(): Promise<void>;
}

export interface DatabaseOptions {
  readonly driver: PgDriver;
  /** Either a URL, or a pool of the caller's own, which stays open. */
  readonly url: string | undefined;
  readonly pool?: PgPool | undefined;
  readonly poolMax: number;
  /** How the server names the connections. */
  readonly name: string;
  readonly platform: Platform;
  /** How long an answer may take: a peer that is gone without a word would be waited for for ever. */
  readonly callTimeoutMs: number;
}

const connectTimeoutMs = 10_000;
const repeatsMax = 6;
const repeatMs = 4;

/** The longest timer. */
const callTimeoutMaxMs = 2 ** 31 - 1;

export function checkCallTimeout(callTimeoutMs: number): number {
  if (Number.isInteger(callTimeoutMs) && callTimeoutMs > 0 && callTimeoutMs <= callTimeoutMaxMs)
    return callTimeoutMs;
  const sentence = `callTimeoutMs must be a whole number from 1 to ${callTimeoutMaxMs}.`;
  throw new MillraceError("invalid-option", sentence);
}

/** One that nobody is about to get, so that who holds another one may ask for it without waiting. */
function hasIdle({ idleCount = 0, waitingCount = 0 }: PgPool): boolean {
  return idleCount > waitingCount;
}

export function openDatabase(options: DatabaseOptions): Database {
  const { driver, url, platform, callTimeoutMs } = options;
  const where = nameOf(url);
  const lasting = { connectionTimeoutMillis: connectTimeoutMs, keepAlive: true };
  // The calls of an idle process meet now and then: a second connection that the pool gave up between two of them would
  // be made anew several times a minute, with a query of its own.
  const idleTimeoutMillis = 60_000;
  const own = {
    ...{ connectionString: url, max: options.poolMax, application_name: options.name, ...lasting },
    idleTimeoutMillis,
  };
  const pool = options.pool ?? new driver.Pool({ ...own, allowExitOnIdle: true });
  const connectBeside = (name: string, connectionString = url): PgListener => {
    const place = connectionString === undefined ? pool.options : { connectionString };
    return new driver.Client({ ...place, application_name: name, ...lasting });
  };
  let isClosed = false;
  let inFlight = 0;
  const hasRunAnywhere = new Set<string>();
  let onIdle: (() => void) | null = null;
  // The pool hears of a connection that dies while it is idle; whoever holds one has to listen himself. Unheard, either
  // ends the process.
  const ignore = (): void => undefined;
  pool.on("error", ignore);
  // One may die in the very bytes that end its greeting, when nobody holds it yet: whoever asked for it goes on when
  // they are all read.
  const greeted = (client: PgPoolClient): void => {
    client.on("error", ignore);
    platform.defer(() => client.removeListener("error", ignore));
  };
  pool.on("connect", greeted);

  const connect = async (isWrite: boolean): Promise<PgPoolClient> => {
    try {
      const client = await pool.connect();
      client.on("error", ignore);
      return client;
    } catch (error) {
      throw storeError(error, where, { isSent: false, isWrite });
    }
  };

  const release = (client: PgPoolClient, isBroken: boolean): void => {
    // A broken one may still have something to say while it ends.
    if (!isBroken) client.removeListener("error", ignore);
    client.release?.(isBroken);
  };

  /**
   * An idle connection that has run this statement already, if there is one: the first call of a function on a
   * connection plans all that is in it, 8 to 10 ms of the server. Calls that meet now and then open more connections
   * than most moments need, and the pool gives the last one that came back.
   */
  const connectFor = async (text: string, isWrite: boolean): Promise<PgPoolClient> => {
    const first = await connect(isWrite);
    if (hasRun(first, text) || !hasRunAnywhere.has(text)) return first;
    const others: PgPoolClient[] = [];
    try {
      let other: PgPoolClient | undefined;
      while (hasIdle(pool) && (other === undefined || !hasRun(other, text)))
        others.push((other = await connect(isWrite)));
    } catch {
      // Another connection would only have been faster; whoever needs one of its own is told what is wrong.
    }
    const taken = others.findLast((client) => hasRun(client, text)) ?? first;
    // The one that is used most comes back last, to lie on top.
    for (const client of [first, ...others]) if (client !== taken) release(client, false);
    return taken;
  };

  const once = async (
    text: string,
    values: readonly Value[],
    isWrite: boolean,
    timeoutMs: number,
  ): Promise<Row[]> => {
    const client = await connectFor(text, isWrite);
    try {
      const rows = await runStatement(client, text, values, timeoutMs);
      hasRunAnywhere.add(text);
      release(client, false);
      return rows;
    } catch (error) {
      if (isNameUnknown(error)) forgetNames(client);
      const { processID } = client;
      if (isTooLate(error) && isDirect(client) && typeof processID === "number")
        await cancelCall(() => connectBeside(options.name), processID, text).catch(() => undefined);
      release(client, isConnectionLost(error));
      throw error;
    }
  };

  const run = async (
    text: string,
    values: readonly Value[],
    isWrite: boolean,
    timeoutMs = callTimeoutMs,
  ): Promise<Row[]> => {
    if (isClosed) throw new MillraceError("closed", "This store was closed.");
    inFlight += 1;
    try {
      for (let tries = 1; ; tries++) {
        try {
          return await once(text, values, isWrite, Math.min(timeoutMs, callTimeoutMs));
        } catch (error) {
          if (!isWorthRepeating(error) || tries > repeatsMax)
            throw storeError(error, where, { isSent: true, isWrite });
          const delayMs = repeatMs * 2 ** tries * platform.random();
          await new Promise<void>((resolve) => void platform.setTimer(delayMs, resolve));
        }
      }
    } finally {
      inFlight -= 1;
      if (inFlight === 0) onIdle?.();
    }
  };

  return {
    where,
    connect: connectBeside,
    write: (text, values = [], timeoutMs = callTimeoutMs) => run(text, values, true, timeoutMs),
    read: (text, values = []) => run(text, values, false),
    async session(use) {
      const client = await connect(true);
      try {
        await use(async (text) => {
          const query = { text, values: [], rowMode: "array", types: rawTypes } as const;
          return (await client.query(query)).rows as Row[];
        });
        release(client, false);
      } catch (error) {
        // Whatever the connection was in the middle of ends with it.
        release(client, true);
        throw storeError(error, where, { isSent: true, isWrite: false });
      }
    },
    async close() {
      if (isClosed) return;
      isClosed = true;
      if (inFlight > 0) await new Promise<void>((resolve) => (onIdle = resolve));
      // A connection may still report its death after the end, so an own pool keeps its listener.
      if (options.pool === undefined) return pool.end();
      pool.removeListener("connect", greeted);
      pool.removeListener("error", ignore);
    },
  };
}
