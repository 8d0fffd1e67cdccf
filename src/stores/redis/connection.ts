/**
 * The one connection on which a store's calls travel, pipelined by the driver in the order they were made. A call that finds the library or the
 * entry missing (a flush, a restart, a failover) did not happen: both are made good here and the call is sent again. A lost reply is
 * the caller's to repeat, because only the caller can mark a call as a repeat.
 */
import { MillraceError } from "../../model/error.ts";
import type { Platform } from "../../platform/platform.ts";
import type { RedisClient } from "./driver.ts";
import { isEntryMissing, isFunctionMissing, isRefused, storeError } from "./errors.ts";
import { layoutVersion, libraryDigest, libraryText } from "./library.ts";

export interface Connection {
  /** A function that may change something. */
  write(name: string, args: readonly string[]): Promise<unknown>;
  read(name: string, args: readonly string[]): Promise<unknown>;
  /** A command of the server's own. */
  ask(command: string, args: readonly string[]): Promise<unknown>;
  /** Connects, loads the library where it is missing, and enters. Answers the epoch. */
  enter(): Promise<number>;
  /** From now on a write is answered only when the server's append-only file is on disk. */
  waitForFile(): void;
  close(): Promise<void>;
}

export interface ConnectionOptions {
  readonly client: RedisClient;
  readonly platform: Platform;
  /** The hash tag that all keys begin with. */
  readonly tag: string;
  readonly sender: string;
  /** How error messages name the server. */
  readonly where: string;
  /** The time that calls carry: null for the server's. */
  readonly now: () => number | null;
}

const readyWaitMs = 2000;
const roundsMax = 4;
const fileWaitMs = 10_000;

export function openConnection(options: ConnectionOptions): Connection {
  const { client, platform, tag, sender, where, now } = options;
  let isClosed = false;
  let inFlight = 0;
  let epoch = 0;
  let waitsForFile = false;
  let onIdle: (() => void) | null = null;
  let loading: Promise<void> | null = null;
  let entering: Promise<void> | null = null;
  let trouble: Error | null = null;
  /** Called with nothing once connected, or with what speaks against it. */
  const waiting = new Set<(trouble?: Error) => void>();
  client.on("error", (error) => {
    trouble = error;
    if (isRefused(error)) for (const end of waiting) end(error);
  });
  client.on("ready", () => {
    trouble = null;
    if (inFlight === 0) client.stream?.unref?.();
    for (const end of waiting) end();
  });

  const send = async (command: string, args: readonly string[], isWrite: boolean): Promise<unknown> => {
    if (client.status !== "ready") await ready();
    try {
      const answering = client.call(command, args);
      // Sent behind the write at once: the server answers when all that this connection wrote is on disk.
      const waiting = isWrite && waitsForFile ? client.call("WAITAOF", ["1", "0", String(fileWaitMs)]) : null;
      waiting?.catch(() => undefined);
      const answer = await answering;
      if (waiting !== null) await onDisk(waiting);
      return answer;
    } catch (error) {
      if (isFunctionMissing(error) || isEntryMissing(error)) throw error;
      throw storeError(error, where, { isSent: true, isWrite });
    }
  };

  const onDisk = async (waiting: Promise<unknown>): Promise<void> => {
    const answer = await waiting.catch((cause: unknown) => cause);
    if (Array.isArray(answer) && Number(answer[0]) >= 1) return;
    const sentence = `${where} did the call, but did not say in time that it is on disk.`;
    throw new MillraceError("outcome-unknown", sentence, { cause: answer });
  };

  const ready = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const end = (against?: Error): void => {
        timer.cancel();
        waiting.delete(end);
        if (against === undefined) resolve();
        else reject(storeError(against, where, { isSent: false, isWrite: false }) as Error);
      };
      const timer = platform.setTimer(readyWaitMs, () => end(trouble ?? new Error("Connection is closed.")));
      waiting.add(end);
      if (client.status === "end" || client.status === "wait") void client.connect().catch(() => undefined);
    });

  const load = (): Promise<void> => {
    loading ??= loadLibrary().finally(() => (loading = null));
    return loading;
  };

  const loadLibrary = async (): Promise<void> => {
    const build = await send("FCALL", ["mr1_build", "0"], false).catch((error: unknown) => {
      if (isFunctionMissing(error)) return null;
      throw error;
    });
    if (build !== libraryDigest) await send("FUNCTION", ["LOAD", "REPLACE", libraryText], false);
  };

  const enter = (): Promise<void> => {
    entering ??= (async () => {
      for (let round = 1; ; round++) {
        try {
          const args = ["mr1_enter", "1", tag, String(epoch), String(layoutVersion)];
          epoch = Number(await send("FCALL", args, false));
          return;
        } catch (error) {
          if (!isFunctionMissing(error) || round > roundsMax) throw error;
          await load();
        }
      }
    })().finally(() => (entering = null));
    return entering;
  };

  const run = async (name: string, args: readonly string[], isWrite: boolean): Promise<unknown> => {
    for (let round = 1; ; round++) {
      const time = now();
      try {
        return await send(
          "FCALL",
          [name, "1", tag, time === null ? "" : String(time), sender, ...args],
          isWrite,
        );
      } catch (error) {
        if (round > roundsMax) throw error;
        if (isFunctionMissing(error)) await load();
        else if (isEntryMissing(error)) await enter();
        else throw error;
      }
    }
  };

  // The socket keeps the process alive only while a call is on its way.
  const counted = async <Answer>(work: () => Promise<Answer>): Promise<Answer> => {
    if (isClosed) throw new MillraceError("closed", "This store was closed.");
    if (++inFlight === 1) client.stream?.ref?.();
    try {
      return await work();
    } finally {
      if (--inFlight === 0) {
        client.stream?.unref?.();
        onIdle?.();
      }
    }
  };

  return {
    write: (name, args) => counted(() => run(name, args, true)),
    read: (name, args) => counted(() => run(name, args, false)),
    ask: (command, args) => counted(() => send(command, args, false)),
    enter: () =>
      counted(async () => {
        await load();
        await enter();
        return epoch;
      }),
    waitForFile: () => void (waitsForFile = true),
    async close() {
      if (isClosed) return;
      isClosed = true;
      if (inFlight > 0) await new Promise<void>((resolve) => (onIdle = resolve));
      client.disconnect();
    },
  };
}
