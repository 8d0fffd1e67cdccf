/** The thread that owns a connection: opens it, runs one commit per message, closes it. Started by runner-thread.ts. */
import { parentPort, workerData } from "node:worker_threads";
import { sendError, storeError } from "./errors.ts";
import { closeSession, commitCalls, openSession } from "./commit.ts";
import type { CallOutcome, CommitOutcome } from "./commit.ts";
import { openFileIdentity } from "./file-identity.ts";
import { configure, openDatabase } from "./open-file.ts";
import type { FromThread, RunRequest, ThreadStart, ToThread } from "./runner-thread.ts";

const { settings, openedAt, ...entry } = workerData as ThreadStart;
const { path } = settings;
const send = (message: FromThread): void => parentPort?.postMessage(message);

try {
  const database = openDatabase(settings);
  configure(database, settings);
  const session = openSession(database, { path, ...entry, identity: openFileIdentity(path, openedAt) });
  parentPort?.on("message", (message: ToThread) => {
    if (message.kind === "close") {
      closeSession(session);
      return send({ kind: "closed" });
    }
    const { calls, machineNow } = JSON.parse(message.text) as RunRequest;
    const commit = commitCalls(session, calls, machineNow);
    const outcomes = commit.outcomes.map(sendOutcome);
    send({ kind: "ran", text: JSON.stringify({ ...commit, outcomes } satisfies CommitOutcome) });
  });
  send({ kind: "open" });
} catch (error) {
  send({ kind: "failed", error: sendError(storeError(error, path)) });
}

function sendOutcome(outcome: CallOutcome): CallOutcome {
  return outcome.kind === "error" ? { kind: "error", error: sendError(outcome.error) } : outcome;
}
