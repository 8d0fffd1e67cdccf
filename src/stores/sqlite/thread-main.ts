/** The thread that owns a connection: opens it, runs one commit per message, closes it. Started by runner-thread.ts. */
import { parentPort, workerData } from "node:worker_threads";
import type { Hints } from "../../store/hints.ts";
import { sendError } from "./errors.ts";
import { openSession, commitCalls } from "./commit.ts";
import type { CallOutcome } from "./commit.ts";
import { openFileIdentity } from "./file-identity.ts";
import { connectFile } from "./open-file.ts";
import type { FromThread, RunRequest, SentCommit, ThreadStart, ToThread } from "./runner-thread.ts";

const { settings, epoch, openedAt } = workerData as ThreadStart;
const send = (message: FromThread): void => parentPort?.postMessage(message);

try {
  const database = connectFile(settings);
  const { path } = settings;
  const session = openSession(database, { path, epoch, identity: openFileIdentity(path, openedAt) });
  parentPort?.on("message", (message: ToThread) => {
    if (message.kind === "close") {
      database.close();
      return send({ kind: "closed" });
    }
    const { calls, machineNow } = JSON.parse(message.text) as RunRequest;
    const { outcomes, hints, told, now } = commitCalls(session, calls, machineNow);
    const sent: SentCommit = { outcomes: outcomes.map(sendOutcome), hints: hints.map(sendHints), told, now };
    send({ kind: "ran", text: JSON.stringify(sent) });
  });
  send({ kind: "open" });
} catch (error) {
  send({ kind: "failed", error: sendError(error) });
}

function sendOutcome(outcome: CallOutcome): CallOutcome {
  return outcome.kind === "error" ? { kind: "error", error: sendError(outcome.error) } : outcome;
}

function sendHints({ routes, ...rest }: Hints): SentCommit["hints"][number] {
  return { ...rest, routes: [...routes] };
}
