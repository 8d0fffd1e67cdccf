/** `millrace workers`: the live workers of all processes, or some of them told to be quiet, to go on or to stop. */
import type { Millrace } from "../../client/millrace.ts";
import type { WorkerView } from "../../client/workers/workers.ts";
import { storeOption } from "../command.ts";
import type { Command } from "../command.ts";
import { existingStoreUrl, withMillrace } from "../store/open-store.ts";
import { toJson } from "../output/print-json.ts";
import { quote, wrong } from "../arguments/read-args.ts";
import { escapeText } from "../output/escape.ts";
import { workerTable } from "./worker-table.ts";

const told = {
  quiet: "is told to claim nothing more and to finish what runs",
  resume: "is told to go on",
  stop: "is told to stop",
} as const;
type Verb = keyof typeof told;

export const workers: Command = {
  name: "workers",
  usage: "workers | workers quiet|resume|stop WORKER",
  summary: "the live workers of all processes; quiet or stop one from outside",
  words: [0, 2],
  options: {
    ...storeOption,
    grace: {
      value: "DURATION",
      meaning: "with stop: how long running handlers may finish; else as it was started",
    },
  },
  examples: ["workers --json", "workers quiet shop-worker-1.4.2-0bad", "workers stop mailer --grace 1m"],
  async run(call) {
    const { terminal, options, wantsJson, words } = call;
    const [verb, worker] = words;
    const grace = options.get("grace");
    if (grace !== undefined && verb !== "stop") throw wrong("--grace has no meaning without stop");
    if (verb !== undefined && !isVerb(verb))
      throw wrong(`workers knows the verbs ${Object.keys(told).join(", ")}, not ${quote(verb)}`);
    if (verb !== undefined && worker === undefined) throw wrong(`workers ${verb} needs a WORKER`);
    const url = await existingStoreUrl(call);
    return withMillrace(call, url, async (mill) => {
      if (verb === undefined) {
        const all = await mill.workers.list();
        const { now } = await mill.describe();
        const text = all.length === 0 ? "no live workers" : workerTable(all, now);
        terminal.writeOut(`${wantsJson ? toJson({ workers: all }) : text}\n`);
        return 0;
      }
      const meant = await tell(mill, verb, worker as string, grace);
      const lines = meant.map(({ id }) => `${escapeText(id)} ${told[verb]}`);
      terminal.writeOut(`${wantsJson ? toJson({ told: meant.map(({ id }) => id) }) : lines.join("\n")}\n`);
      return 0;
    });
  },
};

function isVerb(word: string): word is Verb {
  return Object.hasOwn(told, word);
}

function tell(
  mill: Millrace,
  verb: Verb,
  worker: string,
  grace: string | undefined,
): Promise<readonly WorkerView[]> {
  if (verb !== "stop") return mill.workers[verb](worker);
  return mill.workers.stop(worker, grace === undefined ? {} : { grace });
}
