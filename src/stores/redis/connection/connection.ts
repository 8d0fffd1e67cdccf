/**
 * The one connection on which a store's calls travel, pipelined by the driver in the order in which they are made.
 *
 * A call is refused without effect when the server lacks the library or the entry (after a flush, a restart, a
 * failover), or has become a replica. This file then loads the library, enters again or connects anew, and sends the
 * call again. A call whose reply is lost is not sent again here: the caller repeats it, because only the caller can
 * mark it as a repeat.
 *
 *  connect ─► check the server, once per connection ─► calls ─┬─► reply
 *     ▲                                                       └─► no reply in time: cut, outcome unknown ─┐
 *     └──────────────────────────────────────────────────────────────────────────────────────────────────┘
 */
import { isMillraceError, MillraceError } from "../../../model/error.ts";
import type { Platform, Timer } from "../../../platform/platform.ts";
import { valueText } from "../packing/argument-text.ts";
import { connectIfIdle, holdProcess } from "./driver.ts";
import type { RedisClient } from "./driver.ts";
import {
  connectError,
  isDatabaseRefused,
  isEntryMissing,
  isFunctionMissing,
  isReadOnly,
  isRefused,
  isSilence,
  storeError,
} from "./errors.ts";
import { layoutVersion, libraryBuild, libraryDigest, libraryText } from "../library/library.ts";
import type { ServerFacts } from "./server-check.ts";
import { cutOnSilence } from "./unresponsive.ts";

export interface Connection {
  /** Calls a function of the library. */
  write(name: string, args: readonly string[]): Promise<unknown>;
  read(name: string, args: readonly string[]): Promise<unknown>;
  /** What a function answered to a part of a call, as Millrace's own error; nothing of that part happened. */
  refusalOf(said: Error): unknown;
  /** One of the server's own commands. */
  ask(command: string, args: readonly string[]): Promise<unknown>;
  /**
   * Connects, checks the server, loads the library where it is missing, and begins an entry where there is none.
   * Answers how many partitions the store has.
   */
  enter(): Promise<number>;
  /** How many partitions the store has; 1 before it is entered. */
  readonly partitions: () => number;
  close(): Promise<void>;
}

/** What all connections of a store share. */
export interface SharedOptions {
  readonly platform: Platform;
  /** Whose own messages are not heard twice. */
  readonly sender: string;
  /** How error messages name the server. */
  readonly where: string;
  /** The time that calls carry; null lets the server take its own. */
  readonly now: () => number | null;
  /** How many replicas must have a write before it is answered. */
  readonly replicas: number;
  /** How long a call may wait for its reply before the driver ends it. */
  readonly callTimeoutMs: number;
}

export interface ConnectionOptions extends SharedOptions {
  readonly client: RedisClient;
  /** The hash tag that all keys begin with. */
  readonly tag: string;
  /** How many partitions the store must have, as an argument of enter.lua.ts; read until it is entered. */
  readonly partitions: () => string;
  /** Made for every connection before a call travels on it: it may lead to another server than the last one. */
  readonly check: (ask: Connection["ask"]) => Promise<Pick<ServerFacts, "waitsForFile">>;
}

const readyWaitMs = 2000;
/**
 * The wait for a connection is made of this many timers. Where this process itself stood still for a while (a long
 * garbage collection, a suspended machine), only one of them runs out, and the server keeps the rest of its time.
 */
const readyWaitPieces = 4;
const greetingMaxMs = 10_000;
const roundsMax = 4;
const notSent = { isSent: false, isWrite: false };

export function openConnection(options: ConnectionOptions): Connection {
  const { client, platform, tag, sender, where, now, callTimeoutMs, replicas } = options;
  // Half of the limit: the server gives up waiting for its disk before the driver gives up waiting for the server, so
  // that a slow disk can be told from a silent server.
  const fileWaitMs = Math.ceil(callTimeoutMs / 2);
  let isClosed = false;
  let inFlight = 0;
  let epoch = 0;
  let partitions: string | null = null;
  /** Before that nothing is asked of the partition: nobody knows whether it is of this layout, and of this store. */
  let isEntered = false;
  let waitsForFile = false;
  let onIdle: (() => void) | null = null;
  let trouble: Error | null = null;
  let hasOtherDatabase: Error | null = null;
  /** How many connections were made, and the number of the last one whose server was checked. */
  let connections = 0;
  let checked = 0;
  const cut = cutOnSilence({ client, platform, limitMs: Math.min(callTimeoutMs, greetingMaxMs) });
  /** Those who wait for a connection: called once there is one, or with the error that rules it out. */
  const waiting = new Set<(trouble?: Error) => void>();
  client.on("error", (error) => {
    trouble = error;
    if (isDatabaseRefused(error)) hasOtherDatabase = error;
    if (isRefused(error)) for (const end of waiting) end(error);
  });
  client.on("close", () => (hasOtherDatabase = null));
  client.on("ready", () => {
    connections += 1;
    trouble = null;
    if (inFlight === 0) holdProcess(client, false);
    for (const end of waiting) end();
  });

  const send = async (command: string, args: readonly string[], isWrite: boolean): Promise<unknown> => {
    if (client.status !== "ready") await ready();
    if (hasOtherDatabase !== null) throw storeError(hasOtherDatabase, where, notSent);
    try {
      const answering = client.call(command, args);
      const filed = isWrite && waitsForFile ? prove("WAITAOF", ["1", "0"], 1, "it is on disk") : null;
      const copied =
        isWrite && replicas > 0
          ? prove("WAIT", [String(replicas)], replicas, `${replicas} replicas have it`)
          : null;
      const answer = await answering;
      if (filed !== null) await filed();
      if (copied !== null) await copied();
      return answer;
    } catch (error) {
      if (isFunctionMissing(error) || isEntryMissing(error) || isReadOnly(error)) throw error;
      if (isSilence(error)) void cut();
      throw storeError(error, where, { isSent: true, isWrite });
    }
  };

  /**
   * WAITAOF and WAIT are sent right after the write, without waiting for its reply: the server answers once everything
   * that this connection wrote is on disk, or on replicas, and answers on how many.
   */
  const prove = (command: string, args: readonly string[], least: number, what: string) => {
    const proof = client.call(command, [...args, String(fileWaitMs)]).catch((cause: unknown) => cause);
    return async (): Promise<void> => {
      const answer = await proof;
      const count: unknown = Array.isArray(answer) ? answer[0] : answer;
      if (Number(count) >= least) return;
      const sentence = `${where} did the call, but did not say in time that ${what}.`;
      throw new MillraceError("outcome-unknown", sentence, { cause: answer });
    };
  };

  const ready = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const end = (against?: Error): void => {
        timer.cancel();
        waiting.delete(end);
        if (against === undefined) resolve();
        else reject(connectError(against, where));
      };
      let pieces = readyWaitPieces;
      const wait = (): Timer =>
        platform.setTimer(readyWaitMs / readyWaitPieces, () => {
          if (--pieces > 0) timer = wait();
          else end(trouble ?? new Error("Connection is closed."));
        });
      let timer = wait();
      waiting.add(end);
      void connectIfIdle(client).catch(() => undefined);
    });

  const load = oneAtATime(async () => {
    const answer = await send("FCALL", ["mr1_build", "0"], false).catch((error: unknown) => {
      if (isFunctionMissing(error)) return "0";
      throw error;
    });
    const [build, digest] = String(answer).split(" ");
    // A newer build of the same version is left in place: it does the same, with fewer bugs.
    if (Number(build) > libraryBuild || digest === libraryDigest) return;
    await send("FUNCTION", ["LOAD", "REPLACE", libraryText], false);
  });

  const check = oneAtATime(async () => {
    const at = connections;
    try {
      ({ waitsForFile } = await options.check((command, args) => send(command, args, false)));
      checked = at;
    } catch (error) {
      // The server is a replica. The host name may lead to the primary soon, but this connection never will.
      if (isMillraceError(error, "store-read-only")) await cut();
      throw error;
    }
  });

  const whenChecked = async (): Promise<void> => {
    if (client.status !== "ready") await ready();
    if (checked !== connections) await check();
  };

  const enter = oneAtATime(async () => {
    for (let round = 1; ; round++) {
      try {
        await whenChecked();
        const given = [
          String(epoch),
          String(layoutVersion),
          valueText(now()),
          partitions ?? options.partitions(),
        ];
        const answer = await send("FCALL", ["mr1_enter", "1", tag, ...given], false);
        const [raised, made] = answer as [string, string];
        epoch = Number(raised);
        partitions = made;
        return;
      } catch (error) {
        if (!isFunctionMissing(error) || round > roundsMax) throw storeError(error, where, notSent);
        await load();
      }
    }
  });

  /** The first entry, made by the opening; by whichever call comes next where that failed. */
  const begin = oneAtATime(async () => {
    await whenChecked();
    await load();
    await enter();
    isEntered = true;
  });

  const run = async (name: string, args: readonly string[], isWrite: boolean): Promise<unknown> => {
    for (let round = 1; ; round++) {
      const time = valueText(now());
      try {
        if (!isEntered) await begin();
        if (client.status !== "ready" || checked !== connections) await whenChecked();
        return await send("FCALL", [name, "1", tag, time, sender, ...args], isWrite);
      } catch (error) {
        if (round > roundsMax) throw storeError(error, where, notSent);
        if (isFunctionMissing(error)) await load();
        else if (isEntryMissing(error)) await enter();
        else if (isReadOnly(error) && round === 1) await cut();
        else throw storeError(error, where, notSent);
      }
    }
  };

  // Counts the calls on their way, because the socket keeps the process alive only while there is one.
  const counted = async <Answer>(work: () => Promise<Answer>): Promise<Answer> => {
    if (isClosed) throw new MillraceError("closed", "This store was closed.");
    if (++inFlight === 1) holdProcess(client, true);
    try {
      return await work();
    } finally {
      if (--inFlight === 0) {
        holdProcess(client, false);
        onIdle?.();
      }
    }
  };

  return {
    write: (name, args) => counted(() => run(name, args, true)),
    read: (name, args) => counted(() => run(name, args, false)),
    refusalOf: (said) => storeError(said, where, notSent),
    ask: (command, args) => counted(() => send(command, args, false)),
    enter: () =>
      counted(async () => {
        await begin();
        return Number(partitions);
      }),
    partitions: () => Number(partitions ?? 1),
    async close() {
      if (isClosed) return;
      isClosed = true;
      if (inFlight > 0) await new Promise<void>((resolve) => (onIdle = resolve));
      client.disconnect();
    },
  };
}

/** Whoever asks for work that is on its way already waits for that. */
function oneAtATime(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | null = null;
  return () => (running ??= work().finally(() => (running = null)));
}
