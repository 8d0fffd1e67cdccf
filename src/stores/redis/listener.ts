/**
 * The one connection per process that listens. The driver connects it again when it breaks, and it never keeps the process alive. Nothing depends
 * on it: behind it stands the watch's slow look.
 */
import type { Listener } from "../../store/watch.ts";
import type { RedisClient } from "./driver.ts";

export interface ListenerOptions {
  readonly client: RedisClient;
  readonly channel: string;
  readonly heard: (message: string) => void;
  /** Listening began, or began again: what came before was not heard. */
  readonly began: () => void;
}

export function openListener({ client, channel, heard, began }: ListenerOptions): Listener {
  let isOn = false;
  let isClosed = false;
  client.on("error", () => undefined);
  client.on("close", () => (isOn = false));
  client.on("message", (_, message) => {
    if (!isClosed) heard(message);
  });
  client.on("ready", () => {
    client.stream?.unref?.();
    client.subscribe(channel).then(
      () => {
        if (isClosed) return;
        isOn = true;
        began();
      },
      // The slow look hears what this connection does not.
      () => undefined,
    );
  });
  void client.connect().catch(() => undefined);
  return {
    isListening: () => isOn,
    close() {
      isClosed = true;
      isOn = false;
      client.disconnect();
    },
  };
}
