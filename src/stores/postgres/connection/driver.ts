/**
 * The part of the `pg` driver that the store uses, and its loading. The driver is an optional peer dependency: users of
 * Postgres install it.
 */
import { MillraceError } from "../../../model/error.ts";

export interface PgResult {
  readonly rows: unknown[];
}

export interface PgQuery {
  readonly text: string;
  readonly values: readonly unknown[];
  /** The first query with this name prepares it on the server. */
  readonly name?: string;
  readonly rowMode?: "array";
  readonly types?: { readonly getTypeParser: () => (value: string) => unknown };
  /** After this time the driver gives up waiting for the answer. */
  readonly query_timeout?: number;
}

export interface PgClient {
  query(query: PgQuery | string): Promise<PgResult>;
  release?(error?: Error | boolean): void;
  /** The number of the server process, as it came when the connection was made. */
  readonly processID?: number | null;
}

export interface PgListener extends PgClient {
  connect(): Promise<unknown>;
  end(): Promise<void>;
  on(event: "notification", run: (message: { channel: string; payload?: string }) => void): unknown;
  on(event: "error" | "end", run: (error?: Error) => void): unknown;
}

export interface PgPoolClient extends PgClient {
  on(event: "error", run: (error: Error) => void): unknown;
  removeListener(event: "error", run: (error: Error) => void): unknown;
}

export interface PgPool {
  connect(): Promise<PgPoolClient>;
  end(): Promise<void>;
  on(event: "error", run: (error: Error) => void): unknown;
  on(event: "connect", run: (client: PgPoolClient) => void): unknown;
  removeListener(event: "error", run: (error: Error) => void): unknown;
  removeListener(event: "connect", run: (client: PgPoolClient) => void): unknown;
  readonly options: object;
  readonly idleCount?: number;
  readonly waitingCount?: number;
}

export interface PgDriver {
  readonly Pool: new (options: object) => PgPool;
  readonly Client: new (options: object) => PgListener;
}

export async function loadDriver(): Promise<PgDriver> {
  try {
    const loaded = (await import("pg")) as unknown as PgDriver & { readonly default?: PgDriver };
    return loaded.default ?? loaded;
  } catch (cause) {
    const sentence = 'A store on Postgres needs the driver "pg", version 8.11 or newer: npm install pg.';
    throw new MillraceError("driver-missing", sentence, { cause });
  }
}

export function isPool(given: unknown): given is PgPool {
  if (typeof given !== "object" || given === null) return false;
  const { connect, on, options } = given as Partial<PgPool>;
  return typeof connect === "function" && typeof on === "function" && typeof options === "object";
}
