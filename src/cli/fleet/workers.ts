/** `millrace workers`: the live workers of all processes, or some of them asked to be quiet, to go on or to stop. */
import type { Millrace } from "../../client/millrace.ts";
import type { WorkerView } from "../../client/workers/workers.ts";
import { duration } from "../arguments/option-kinds.ts";
import type { Options, ValuesOf } from "../arguments/option-kinds.ts";
import { action, command } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { workerTable } from "./worker-table.ts";

function ask<Known extends Options>(
  options: Known,
  sentence: string,
  change: (mill: Millrace, worker: string, options: ValuesOf<Known>) => Promise<readonly WorkerView[]>,
) {
  return action({
    words: "WORKER",
    options,
    async run({ words: [worker = ""], options: given, withStore, answer }) {
      const asked = await withStore((mill) => change(mill, worker, given));
      const ids = asked.map(({ id }) => id);
      answer({ asked: ids }, ids.map((id) => `${escapeText(id)} ${sentence}`).join("\n"));
    },
  });
}

const graceOption = {
  grace: duration("with stop: how long running handlers may finish; else as it was started"),
};

export const workers = command({
  name: "workers",
  summary: "the live workers of all processes; quiet or stop one from outside",
  options: {},
  examples: ["workers --json", "workers quiet shop-worker-1.4.2-0bad", "workers stop mailer --grace 1m"],
  verbs: {
    quiet: ask({}, "is asked to claim nothing more and to finish what runs", (mill, worker) =>
      mill.workers.quiet(worker),
    ),
    resume: ask({}, "is asked to go on", (mill, worker) => mill.workers.resume(worker)),
    stop: ask(graceOption, "is asked to stop", (mill, worker, grace) => mill.workers.stop(worker, grace)),
  },
  async run({ withStore, answer }) {
    const [all, now] = await withStore(
      async (mill) => [await mill.workers.list(), (await mill.describe()).now] as const,
    );
    answer({ workers: all }, () => (all.length === 0 ? "no live workers" : workerTable(all, now)));
  },
});
