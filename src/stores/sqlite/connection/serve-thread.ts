/** What a thread does that owns a connection: opens it, runs one commit per message, closes it. */
import { sendError, storeError } from "./errors.ts";
import { closeSession, commitCalls, openSession } from "./commit.ts";
import type { CallOutcome, CommitOutcome } from "./commit.ts";
import { openFileIdentity } from "./file-identity.ts";
import { configure, openDatabase } from "./open-file.ts";
import type { FromThread, RunRequest, ThreadStart, ToThread } from "./runner-thread.ts";

/** The thread's end of the line to its runner. */
interface ThreadPort {
  postMessage(message: FromThread): void;
  on(event: "message", listener: (message: ToThread) => void): unknown;
}

export function serveThread(port: ThreadPort, { settings, openedAt, ...entry }: ThreadStart): void {
  const { path } = settings;
  const send = (message: FromThread): void => port.postMessage(message);
  try {
    const database = openDatabase(settings);
    configure(database, settings);
    const session = openSession(database, { path, ...entry, identity: openFileIdentity(path, openedAt) });
    port.on("message", (message) => {
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
}

function sendOutcome(outcome: CallOutcome): CallOutcome {
  return outcome.kind === "error" ? { kind: "error", error: sendError(outcome.error) } : outcome;
}
