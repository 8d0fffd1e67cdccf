/**
 * A TCP proxy on loopback that breaks connections the ways networks do, for tests of what a client makes of it:
 *
 *  delay        every chunk waits, in both directions
 *  slice        chunks are handed on a few bytes at a time
 *  cut          all connections are reset, now
 *  refuse       new connections are reset at once
 *  cutReply     the next request that matches passes, and the connection is reset before any of its reply
 *  dropRequest  the next request that matches is thrown away, and the connection is reset
 *  halfOpen     nothing passes in either direction any more, and nobody is told; heal() resets what was half-open,
 *               speakAgain() leaves it so and lets new ones pass
 *  oneWay       requests pass, replies do not
 *
 * A match looks for a text in the bytes of one chunk, so the text must come in one piece: a short statement does.
 */
import { connect, createServer } from "node:net";
import type { Server, Socket } from "node:net";

export interface TcpProxy {
  readonly port: number;
  /** Open connections. */
  readonly count: number;
  /** Connections taken so far. */
  readonly made: number;
  delayMs: number;
  /** 0 for whole chunks. */
  sliceBytes: number;
  isRefusing: boolean;
  cut(): void;
  /** Resolves when it has happened. */
  cutReply(match: string): Promise<void>;
  dropRequest(match: string): Promise<void>;
  halfOpen(): void;
  oneWay(): void;
  speakAgain(): void;
  heal(): void;
  close(): Promise<void>;
}

interface Trap {
  readonly match: string;
  readonly passes: boolean;
  sprung(): void;
}

interface Pair {
  readonly near: Socket;
  readonly far: Socket;
  /** The request passed that was waited for: its reply is the end. */
  isDoomed: boolean;
  /** Was half-open once, and stays so. */
  isSilent: boolean;
}

export async function openTcpProxy(target: {
  readonly port: number;
  readonly host?: string;
}): Promise<TcpProxy> {
  const pairs = new Set<Pair>();
  const traps = new Set<Trap>();
  let made = 0;
  let silence: "none" | "replies" | "all" = "none";

  const end = (pair: Pair): void => {
    pairs.delete(pair);
    pair.near.resetAndDestroy();
    pair.far.destroy();
  };

  const server = createServer((near) => {
    near.on("error", () => undefined);
    if (proxy.isRefusing) return void near.resetAndDestroy();
    const far = connect({ port: target.port, host: target.host ?? "127.0.0.1" });
    const pair: Pair = { near, far, isDoomed: false, isSilent: false };
    pairs.add(pair);
    made += 1;
    near.setNoDelay(true);
    far.setNoDelay(true);
    far.on("error", () => end(pair));
    near.on("close", () => end(pair));
    far.on("close", () => {
      // The other side's orderly end is handed on; a doomed or silenced connection is told nothing.
      if (silence === "none" && !pair.isDoomed && !pair.isSilent) near.end();
    });
    const toFar = handOn(far, proxy);
    const toNear = handOn(near, proxy);
    near.on("data", (chunk) => {
      if (silence === "all" || pair.isSilent) return;
      const trap = [...traps].find(({ match }) => chunk.includes(match));
      if (trap === undefined) return toFar(chunk);
      traps.delete(trap);
      if (trap.passes) {
        pair.isDoomed = true;
        far.once("data", () => {
          end(pair);
          trap.sprung();
        });
        toFar(chunk);
      } else {
        end(pair);
        trap.sprung();
      }
    });
    far.on("data", (chunk) => {
      if (silence === "none" && !pair.isDoomed && !pair.isSilent) toNear(chunk);
    });
  });

  const cut = (): void => {
    for (const pair of [...pairs]) end(pair);
  };
  const trap = (match: string, passes: boolean): Promise<void> =>
    new Promise((resolve) => void traps.add({ match, passes, sprung: resolve }));

  const port = await listen(server);
  const proxy: TcpProxy = {
    port,
    delayMs: 0,
    sliceBytes: 0,
    isRefusing: false,
    get count() {
      return pairs.size;
    },
    get made() {
      return made;
    },
    cut,
    cutReply: (match) => trap(match, true),
    dropRequest: (match) => trap(match, false),
    halfOpen: () => void (silence = "all"),
    oneWay: () => void (silence = "replies"),
    speakAgain() {
      for (const pair of pairs) pair.isSilent = true;
      silence = "none";
    },
    heal() {
      if (silence !== "none") cut();
      silence = "none";
      proxy.isRefusing = false;
    },
    close() {
      cut();
      return new Promise((resolve) => void server.close(() => resolve()));
    },
  };
  return proxy;
}

/** Hands chunks on in order, late or in slices if so asked. */
function handOn(to: Socket, how: Pick<TcpProxy, "delayMs" | "sliceBytes">): (chunk: Buffer) => void {
  let last: Promise<void> = Promise.resolve();
  let waiting = 0;
  const write = async (chunk: Buffer, delayMs: number, sliceBytes: number): Promise<void> => {
    if (delayMs > 0) await new Promise((resolve) => void setTimeout(resolve, delayMs));
    const size = sliceBytes > 0 ? sliceBytes : chunk.length;
    for (let from = 0; from < chunk.length; from += size) {
      if (!to.destroyed) to.write(chunk.subarray(from, from + size));
      if (sliceBytes > 0) await new Promise((resolve) => void setImmediate(resolve));
    }
  };
  return (chunk) => {
    if (waiting === 0 && how.delayMs === 0 && how.sliceBytes === 0) {
      if (!to.destroyed) to.write(chunk);
      return;
    }
    const { delayMs, sliceBytes } = how;
    waiting += 1;
    last = last.then(() => write(chunk, delayMs, sliceBytes)).finally(() => void (waiting -= 1));
  };
}

function listen(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port));
  });
}
