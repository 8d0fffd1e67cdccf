/**
 * A connection whose server no longer answers: neither the machine nor the driver notices for many minutes, and all
 * that time its calls wait. This file cuts it at once, and the driver makes a new one. The driver's own limit
 * (`socketTimeout`) is not used: its timer outlives its connection and cuts the next one.
 */
import type { Platform, Timer } from "../../../platform/platform.ts";
import type { RedisClient } from "./driver.ts";

export interface SilenceOptions {
  readonly client: RedisClient;
  readonly platform: Platform;
  /** How long a server that took the connection may take to greet. */
  readonly limitMs: number;
}

/** Answers what cuts the connection, and says when it is gone. */
export function cutOnSilence({ client, platform, limitMs }: SilenceOptions): () => Promise<void> {
  let greeting: Timer | null = null;
  let gone: PromiseWithResolvers<void> | null = null;
  const cut = (): Promise<void> => {
    if (client.status !== "ready" && client.status !== "connect") return Promise.resolve();
    gone ??= Promise.withResolvers();
    // An orderly end would wait for the silent side.
    if (client.stream?.destroy === undefined) client.disconnect(true);
    else client.stream.destroy();
    return gone.promise;
  };
  const over = (): void => greeting?.cancel();
  client.on("connect", () => {
    over();
    greeting = platform.setTimer(limitMs, () => void cut(), false);
  });
  client.on("ready", over);
  client.on("close", () => {
    over();
    gone?.resolve();
    gone = null;
  });
  return cut;
}
