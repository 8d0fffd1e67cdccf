/**
 * The one connection per process that listens. The driver connects it again when it breaks; a ping finds out when it
 * broke without a word. It never keeps the process alive. Nothing depends on it: a watch that is not listening polls,
 * and each user of a hint has a slow poll of its own.
 */
import type { Platform, Timer } from "../../../platform/platform.ts";
import type { Listener } from "../../../store/watch/watch.ts";
import { holdProcess } from "../connection/driver.ts";
import type { RedisClient } from "../connection/driver.ts";
import { cutOnSilence } from "../connection/unresponsive.ts";

export interface ListenerOptions {
  readonly client: RedisClient;
  readonly platform: Platform;
  /** The driver ends a ping that has no reply by then. */
  readonly callTimeoutMs: number;
  readonly channel: string;
  readonly heard: (message: string) => void;
  /** Listening began, or began again: what came before was not heard. */
  readonly began: () => void;
}

/** Between two pings: a small part of what an idle process may ask. */
const pingMaxMs = 10_000;

export function openListener(options: ListenerOptions): Listener {
  const { client, platform, channel, heard, began } = options;
  const pingMs = Math.min(pingMaxMs, options.callTimeoutMs);
  const cut = cutOnSilence({ client, platform, limitMs: pingMs });
  let isOn = false;
  let isClosed = false;
  let ping: Timer | null = null;

  const listen = async (): Promise<void> => {
    if (!isOn) {
      await client.subscribe(channel);
      isOn = true;
      if (!isClosed) began();
    } else await client.call("PING", []);
  };

  /** A subscription that was refused is asked for again at the same pace. */
  const visit = (): void => {
    ping?.cancel();
    listen()
      .catch((error: unknown) => {
        if (!isReply(error)) void cut();
      })
      .finally(() => {
        if (!isClosed) ping = platform.setTimer(pingMs, () => client.status === "ready" && visit(), false);
      });
  };

  client.on("error", () => undefined);
  client.on("close", () => {
    isOn = false;
    ping?.cancel();
  });
  client.on("message", (_, message) => {
    if (!isClosed) heard(message);
  });
  client.on("ready", () => {
    holdProcess(client, false);
    visit();
  });
  void client.connect().catch(() => undefined);
  return {
    isListening: () => isOn,
    close() {
      isClosed = true;
      isOn = false;
      ping?.cancel();
      client.disconnect();
    },
  };
}

/** The server answered, if only to refuse. */
function isReply(error: unknown): boolean {
  return error instanceof Error && error.name === "ReplyError";
}
