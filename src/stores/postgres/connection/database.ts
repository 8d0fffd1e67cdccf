/**
 * The store's connections. Each call is one statement and leaves nothing in the session, so a pooler in transaction
 * mode may stand between. A deadlock or a serialisation failure is repeated here a few times. After trouble with the
 * connection the caller repeats the call, because only the caller can mark it as a repeat.
 */
import { MillraceError } from "../../../model/error.ts";
import type { Platform } from "../../../platform/platform.ts";
import type { PgDriver, PgListener, PgPool, PgPoolClient } from "./driver.ts";
import { isConnectionLost, isNameUnknown, isTooLate, isWorthRepeating, storeError } from "./errors.ts";
import { cancelCall, clearNames, hasRun, isDirect, rawTypes, runStatement } from "./statement.ts";
import { nameOf } from "./store-url.ts";

export type Value = string | number | boolean | null | readonly string[];
export type Row = (string | null)[];

export interface Database {
  /** The name of the database in error messages. */
  readonly where: string;
  /**
   * Runs a statement that may change something. `timeoutMs`: the call timeout, if the answer is useless sooner than
   * usual.
   */
  readonly write: (text: string, values?: readonly Value[], timeoutMs?: number) => Promise<Row[]>;
  readonly read: (text: string, values?: readonly Value[]) => Promise<Row[]>;
  /** Runs several statements on one connection, for migrations. */
  session(use: (run: (text: string) => Promise<Row[]>) => Promise<void>): Promise<void>;
  /** A connection outside the pool, to the same server unless another URL is given. */
  connect(name: string, url?: string): PgListener;
  close(): Promise<void>;
}

export interface DatabaseOptions {
  readonly driver: PgDriver;
  /** Either a URL, or the caller's own pool, which stays open. */
  readonly url: string | undefined;
  readonly pool?: PgPool | undefined;
  readonly poolMax: number;
  /** The name under which the server shows the connections. */
  readonly name: string;
  readonly platform: Platform;
  /** The longest wait for an answer: without it, a call to a peer that went away silently would wait for ever. */
  readonly callTimeoutMs: number;
}

const connectTimeoutMs = 10_000;
const repeatsMax = 6;
const repeatMs = 4;

/** The longest delay of a timer. */
const callTimeoutMaxMs = 2 ** 31 - 1;

export function checkCallTimeout(callTimeoutMs: number): number {
  if (Number.isInteger(callTimeoutMs) && callTimeoutMs > 0 && callTimeoutMs <= callTimeoutMaxMs)
    return callTimeoutMs;
  const sentence = `callTimeoutMs must be a whole number from 1 to ${callTimeoutMaxMs}.`;
  throw new MillraceError("invalid-option", sentence);
}

/** Whether a connection is idle that no waiting call is about to get: another one can then be taken without waiting. */
function hasIdle({ idleCount = 0, waitingCount = 0 }: PgPool): boolean {
  return idleCount > waitingCount;
}

export function openDatabase(options: DatabaseOptions): Database {
  const { driver, url, platform, callTimeoutMs } = options;
  const where = nameOf(url);
  const lasting = { connectionTimeoutMillis: connectTimeoutMs, keepAlive: true };
  // An idle process makes two calls at the same time now and then. If the pool closed the second connection between two
  // such moments, it would be opened anew several times a minute, with a query of its own.
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
  // An error event without a listener ends the process. The pool listens while a connection is idle; the code that
  // holds a connection has to listen itself.
  const ignore = (): void => undefined;
  pool.on("error", ignore);
  // A connection may die with the very bytes that end its greeting, before any code holds it. The caller that waits for
  // the connection goes on only after all of these bytes are read.
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
    // A broken connection may still emit an error while it closes, so it keeps the listener.
    if (!isBroken) client.removeListener("error", ignore);
    client.release?.(isBroken);
  };

  /**
   * Prefers an idle connection that has already run this statement. The first call of a function on a connection plans
   * all statements in it, which costs the server 8 to 10 ms. Calls that coincide now and then open more connections
   * than are usually needed, and the pool always gives out the last one that came back.
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
      // Another connection would only have been faster. If a caller needs one of its own, that caller gets the error.
    }
    const taken = others.findLast((client) => hasRun(client, text)) ?? first;
    // The connection that is used most comes back last, so the pool gives it out first.
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
      if (isNameUnknown(error)) clearNames(client);
      const { processID } = client;
      // Not awaited: on a server that fell silent the caller would wait for this connection as well.
      if (isTooLate(error) && isDirect(client) && typeof processID === "number")
        void cancelCall(() => connectBeside(options.name), processID, text).catch(() => undefined);
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
        // Closing the connection also ends whatever statement was running on it.
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
