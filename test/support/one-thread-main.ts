/** The thread of one-thread.ts: serves each connection over the port that it came with. */
import { parentPort } from "node:worker_threads";
import type { MessagePort } from "node:worker_threads";
import type { ThreadStart } from "../../src/stores/sqlite/connection/runner-thread.ts";
import { serveThread } from "../../src/stores/sqlite/connection/serve-thread.ts";

parentPort?.on("message", ({ start, port }: { readonly start: ThreadStart; readonly port: MessagePort }) =>
  serveThread(port, start),
);
