/**
 * The driver `ioredis`, an optional peer: loaded when a store is opened, never before. Only what Millrace uses is named
 * here; a client of its fork iovalkey has the same shape. A client that the caller passes is copied, so that it need
 * not have Millrace's settings: nothing is queued while the connection is away, and no command is ever sent twice by
 * the driver.
 */
import { MillraceError } from "../../../model/error.ts";

export interface RedisClient {
  readonly status: string;
  connect(): Promise<void>;
  disconnect(reconnect?: boolean): void;
  call(command: string, args: readonly (string | number)[]): Promise<unknown>;
  subscribe(channel: string): Promise<unknown>;
  on(event: "connect" | "ready" | "close" | "end", run: () => void): unknown;
  on(event: "error", run: (error: Error) => void): unknown;
  on(event: "message", run: (channel: string, message: string) => void): unknown;
  readonly stream?: { readonly destroyed?: boolean; ref?(): void; unref?(): void; destroy?(): void };
}

/** A client of the caller's own: only copied. */
export interface GivenClient {
  readonly options: object;
  duplicate(options: object): RedisClient;
}

/** A cluster client of the caller's own: only read, never used. */
export interface RedisCluster {
  nodes(role: "all"): GivenClient[];
  readonly startupNodes?: readonly (string | number | object)[];
  readonly options: {
    readonly redisOptions?: object;
    readonly natMap?: Readonly<Record<string, { readonly host: string; readonly port: number }>>;
  };
}

interface RedisDriver {
  readonly Redis: new (...args: [url: string, options: object] | [options: object]) => RedisClient;
}

/** Whether the connection keeps the process alive. One that is gone is left alone: it would only collect listeners. */
export function holdProcess({ stream }: Pick<RedisClient, "stream">, isHeld: boolean): void {
  if (stream === undefined || stream.destroyed === true) return;
  if (isHeld) stream.ref?.();
  else stream.unref?.();
}

/** Connects a client that has not begun to, or has given up; one that is on its way goes on by itself. */
export async function connectIfIdle(client: Pick<RedisClient, "status" | "connect">): Promise<void> {
  if (client.status === "wait" || client.status === "end") await client.connect();
}

const retryMs = { first: 50, max: 2000 };

export function clientOptions(callTimeoutMs: number): object {
  return {
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    enableAutoPipelining: false,
    connectTimeout: 10_000,
    commandTimeout: callTimeoutMs,
    // What a server says to the first command, such as that it takes no more connections, must reach a command that is
    // heard: the ready check.
    connectionName: null,
    disableClientInfo: true,
    keyPrefix: "",
    retryStrategy: (tries: number) => Math.min(retryMs.max, retryMs.first * 2 ** Math.min(tries, 10)),
    reconnectOnError: null,
  };
}

export async function loadDriver(): Promise<RedisDriver> {
  try {
    return (await import("ioredis")) as unknown as RedisDriver;
  } catch (cause) {
    const sentence =
      'A store on Redis or Valkey needs the driver "ioredis", version 5.4 or newer: npm install ioredis.';
    throw new MillraceError("driver-missing", sentence, { cause });
  }
}

export function isCluster(given: unknown): given is RedisCluster {
  return typeof (given as Partial<RedisCluster> | null | undefined)?.nodes === "function";
}

export function isClient(given: unknown): given is GivenClient {
  const { duplicate, call, subscribe } = (given ?? {}) as Partial<GivenClient & RedisClient>;
  return [duplicate, call, subscribe].every((each) => typeof each === "function");
}
