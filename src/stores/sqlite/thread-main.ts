/** The thread that owns a connection: opens it, runs one group per message, closes it. Started by runner-thread.ts. */
import { parentPort, workerData } from "node:worker_threads";
import { sendError } from "./errors.ts";
import { openSession, runGroup } from "./group.ts";
import type { CallOutcome } from "./group.ts";
import { connectFile } from "./open-file.ts";
import type { FromThread, RunRequest, ThreadStart, ToThread } from "./runner-thread.ts";

const { settings, epoch } = workerData as ThreadStart;
const send = (message: FromThread): void => parentPort?.postMessage(message);

try {
  const database = connectFile(settings);
  const session = openSession(database, settings.path, epoch);
  parentPort?.on("message", (message: ToThread) => {
    if (message.kind === "close") {
      database.close();
      return send({ kind: "closed" });
    }
    const { calls, machineNow } = JSON.parse(message.text) as RunRequest;
    const group = runGroup(session, calls, machineNow);
    const text = JSON.stringify({ ...group, outcomes: group.outcomes.map(sendOutcome) });
    send({ kind: "ran", text });
  });
  send({ kind: "open" });
} catch (error) {
  send({ kind: "failed", error: sendError(error) });
}

function sendOutcome(outcome: CallOutcome): CallOutcome {
  return outcome.kind === "error" ? { kind: "error", error: sendError(outcome.error) } : outcome;
}
