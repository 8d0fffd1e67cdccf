/** The file of a thread that owns a connection. Started by runner-thread.ts. */
import { parentPort, workerData } from "node:worker_threads";
import type { MessagePort } from "node:worker_threads";
import type { ThreadStart } from "./runner-thread.ts";
import { serveThread } from "./serve-thread.ts";

serveThread(parentPort as MessagePort, workerData as ThreadStart);
