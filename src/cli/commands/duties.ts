/** `millrace duties`: the names of the background duties, or one duty run by hand. */
import { storeOption } from "../command.ts";
import type { Call, Command } from "../command.ts";
import { existingStoreUrl, withMillrace } from "../open-store.ts";
import { toJson } from "../print-json.ts";
import { quote, wrong } from "../read-args.ts";

export const duties: Command = {
  name: "duties",
  usage: "duties | duties run NAME",
  summary: "the background duties, or one of them run once",
  words: [0, 2],
  options: storeOption,
  examples: ["duties run reclaim", "duties run retention --json"],
  async run(call) {
    const [verb, name] = call.words;
    if (verb === undefined) return listDuties(call);
    if (verb !== "run") throw wrong(`duties knows the verb run, not ${quote(verb)}`);
    if (name === undefined) throw wrong("duties run needs a NAME");
    return runDuty(call, name);
  },
};

async function listDuties(call: Call): Promise<number> {
  const names = await withMillrace(call, await existingStoreUrl(call), async (mill) => mill.dutyNames);
  call.terminal.writeOut(call.wantsJson ? `${toJson({ duties: names })}\n` : `${names.join("\n")}\n`);
  return 0;
}

async function runDuty(call: Call, name: string): Promise<number> {
  const { terminal, wantsJson } = call;
  const { processed, errors, missing, outcomes } = await withMillrace(
    call,
    await existingStoreUrl(call),
    (mill) => mill.runDuty(name),
  );
  const told = Object.entries(outcomes).map(([outcome, count]) => `, ${outcome} ${count}`);
  const passed = missing === undefined ? "" : `; failing partitions passed over: ${missing.join(", ")}`;
  terminal.writeOut(
    wantsJson
      ? `${toJson({ duty: name, processed, errors, ...(missing === undefined ? {} : { missing }), outcomes })}\n`
      : `${name}: processed ${processed}, errors ${errors}${told.join("")}${passed}\n`,
  );
  return errors === 0 ? 0 : 1;
}
