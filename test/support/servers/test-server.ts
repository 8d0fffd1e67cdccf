/** What every server that the tests start can do, whatever it speaks, and how its process is ended and brought back. */
import type { ChildProcess } from "node:child_process";
import { rmSync } from "node:fs";

export interface TestServer {
  readonly url: string;
  readonly port: number;
  readonly process: ChildProcess;
  readonly folder: string;
  /** Ends it as the operating system would: no shutdown, no flush. */
  kill(): Promise<void>;
  /** Ends it if it runs, and starts it again on the same files and port. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export interface TestServerOptions {
  readonly url: string;
  readonly port: number;
  /** All of its files; removed when it is stopped. */
  readonly folder: string;
  /** Starts its process and waits until it answers. */
  readonly begin: () => Promise<ChildProcess>;
  /** How it is ended for a restart, and for good. */
  readonly signals: { readonly restart: NodeJS.Signals; readonly stop: NodeJS.Signals };
}

export async function startServer(options: TestServerOptions): Promise<TestServer> {
  const { url, port, folder, begin, signals } = options;
  let child = await begin();
  const end = (signal: NodeJS.Signals): Promise<void> =>
    new Promise((resolve) => {
      if (child.exitCode !== null || child.signalCode !== null) return resolve();
      child.once("exit", () => resolve());
      child.kill(signal);
    });
  return {
    url,
    port,
    folder,
    get process() {
      return child;
    },
    kill: () => end("SIGKILL"),
    async restart() {
      await end(signals.restart);
      child = await begin();
    },
    async stop() {
      await end(signals.stop);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
