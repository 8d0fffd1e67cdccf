/**
 * The one connection per process that listens. It is direct (a pooler in transaction mode would swallow LISTEN), comes back by itself when it
 * breaks, and never keeps the process alive. Nothing depends on it: behind it stands the watch's slow look.
 */
import type { Platform, Timer } from "../../platform/platform.ts";
import type { Listener } from "../../store/watch.ts";
import type { PgListener } from "./driver.ts";

const retryMs = { first: 250, max: 15_000 };

interface Stream {
  ref?(): void;
  unref?(): void;
}

function streamOf(client: PgListener): Stream | undefined {
  return (client as { connection?: { stream?: Stream } }).connection?.stream;
}

export interface ListenerOptions {
  readonly platform: Platform;
  readonly channel: string;
  readonly connect: () => PgListener;
  readonly heard: (payload: string) => void;
  /** Listening began, or began again: what came before was not heard. */
  readonly began: () => void;
}

export function openListener({ platform, channel, connect, heard, began }: ListenerOptions): Listener {
  let client: PgListener | null = null;
  let isOn = false;
  let isClosed = false;
  let tries = 0;
  let timer: Timer | null = null;
  let ending: Promise<void> = Promise.resolve();

  const lost = (from: PgListener): void => {
    if (client !== from) return;
    client = null;
    isOn = false;
    end(from);
    if (isClosed) return;
    tries += 1;
    const delayMs =
      Math.min(retryMs.max, retryMs.first * 2 ** Math.min(tries, 10)) * (0.5 + platform.random());
    timer = platform.setTimer(delayMs, () => void begin(), false);
  };

  const end = (from: PgListener): void => {
    const before = ending;
    // Whoever waits for the end must not find the process gone before.
    streamOf(from)?.ref?.();
    ending = from.end().then(
      () => before,
      () => before,
    );
  };

  const begin = async (): Promise<void> => {
    const mine = connect();
    client = mine;
    mine.on("error", () => lost(mine));
    mine.on("end", () => lost(mine));
    mine.on("notification", ({ payload }) => {
      if (!isClosed && payload !== undefined) heard(payload);
    });
    try {
      await mine.connect();
      await mine.query(`LISTEN "${channel}"`);
    } catch {
      lost(mine);
      return;
    }
    if (isClosed) return lost(mine);
    tries = 0;
    isOn = true;
    streamOf(mine)?.unref?.();
    began();
  };

  void begin();
  return {
    isListening: () => isOn,
    async close() {
      isClosed = true;
      isOn = false;
      timer?.cancel();
      const mine = client;
      client = null;
      if (mine !== null) end(mine);
      await ending;
    },
  };
}
