/**
 * A process of the fleet tests: a worker that shares the total of a queue, whose handlers run until they are cancelled;
 * or a leader that stops itself (SIGSTOP) in the middle of its step and writes when it goes on.
 */
import { writeSync } from "node:fs";
import { handler, job, Millrace } from "../../src/index.ts";
import { readMillraceOptions } from "../../src/client/millrace-options.ts";
import { createServices } from "../../src/engine/services.ts";
import { openStore } from "../../src/open.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { aJob } from "../support/builders.ts";
import { until } from "../support/until.ts";

export type MemberLine =
  | { readonly line: "ready" }
  | { readonly line: "stopped" }
  | { readonly line: "cancelled"; readonly id: string }
  | { readonly line: "held" }
  | { readonly line: "wrote"; readonly answer: string; readonly isHeld: boolean };

const [role = "", url = ""] = process.argv.slice(2);
const say = (line: MemberLine): void => void writeSync(1, `${JSON.stringify(line)}\n`);

if (role === "worker") {
  const mill = await Millrace.open(url, { log: false });
  const endless = job<null>("endless", { queue: "shared" });
  const worker = await mill.work(
    [
      handler(endless, async ({ id, signal }) => {
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        say({ line: "cancelled", id });
        signal.throwIfAborted();
      }),
    ],
    { queues: { shared: { total: 12 } }, shutdownGrace: 100, abortGrace: 100, signals: true },
  );
  void worker.stopped.then(() => {
    say({ line: "stopped" });
    return mill.close();
  });
  say({ line: "ready" });
} else {
  const { settings, log } = readMillraceOptions(nodePlatform, { log: false });
  const store = await openStore(nodePlatform, url);
  const { leadership, heartbeat } = createServices(store, nodePlatform, settings, log);
  leadership.isCandidate = true;
  heartbeat.start(() => ({}));
  await until("it leads", () => leadership.isLeader);
  say({ line: "held" });
  const check = leadership.check();
  process.kill(process.pid, "SIGSTOP");
  const [answer] = await store.submit([
    { jobs: [aJob({ id: "late" })], checks: check === null ? [] : [check] },
  ]);
  const told = answer?.kind === "refused" ? answer.reason : String(answer?.kind);
  say({ line: "wrote", answer: told, isHeld: leadership.isLeader });
  await heartbeat.stop();
  await store.close();
}
