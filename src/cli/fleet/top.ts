/**
 * `millrace top`: queues, rates, workers and trouble, live. Once a second it reads state counts and the registry of
 * workers, never a list of jobs. Into a pipe or a file it prints one frame, over one second, and ends.
 */
import type { Millrace } from "../../client/millrace.ts";
import { command } from "../command.ts";
import type { Call } from "../command.ts";
import { Screen } from "./screen.ts";
import { topFrame, topQueues, topTrouble } from "./top-frame.ts";
import type { TopLook } from "./top-frame.ts";
import { waitMs } from "../wait.ts";

const everyMs = 1000;
/** One frame on paper shows everything. */
const paperRows = 10_000;

export const top = command({
  name: "top",
  summary: "a live view of queues, rates, workers and trouble; Ctrl-C ends it",
  options: {},
  examples: ["top --store postgres://localhost/shop", "top --json"],
  run: (call) => call.withStore((mill) => watch(call, mill)),
});

async function watch({ terminal, platform, answer, wantsJson }: Call, mill: Millrace): Promise<void> {
  const ended = new AbortController();
  const unwatch = platform.onTermination(() => ended.abort());
  const screen = new Screen(terminal);
  let before: TopLook | null = null;
  while (!ended.signal.aborted) {
    const look = await readLook(mill);
    if (terminal.isTTY && !wantsJson) screen.draw(topFrame(before, look, terminal.rows - 2));
    else if (before !== null) {
      const queues = topQueues(before, look);
      const shown = { queues, workers: look.workers, trouble: topTrouble(queues, look.workers) };
      const earlier = before;
      answer(shown, () => topFrame(earlier, look, paperRows).join("\n"));
      break;
    }
    before = look;
    await waitMs(platform, everyMs, ended.signal).catch(() => undefined);
  }
  unwatch();
}

async function readLook(mill: Millrace): Promise<TopLook> {
  const [counts, workers, { now }] = await Promise.all([
    mill.jobs.counts(),
    mill.workers.list(),
    mill.describe(),
  ]);
  return { counts, workers, now };
}
