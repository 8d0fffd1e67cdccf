/** `millrace explain`: why a job is not running, and when it is expected to. */
import { MillraceError } from "../../model/error.ts";
import { storeOption } from "../command.ts";
import type { Command } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { formatAge, formatInstant } from "../output/format-time.ts";
import { existingStoreUrl, withMillrace } from "../store/open-store.ts";
import { toJson } from "../output/print-json.ts";

export const explain: Command = {
  name: "explain",
  usage: "explain ID",
  summary: "why a job is not running, and when it is expected to",
  words: [1, 1],
  options: storeOption,
  async run(call) {
    const { terminal, platform, words, wantsJson } = call;
    const id = words[0] as string;
    const explanation = await withMillrace(call, await existingStoreUrl(call), (mill) => mill.explain(id));
    if (explanation === null)
      throw new MillraceError("job-not-found", `There is no job ${JSON.stringify(id)}.`);
    if (wantsJson) {
      terminal.writeOut(`${toJson(explanation)}\n`);
      return 0;
    }
    const { state, why, expectedAt, readyLikeThis } = explanation;
    const lines = [`${state}: ${escapeText(why)}`];
    if (expectedAt !== null)
      lines.push(`expected ${formatAge(expectedAt, platform.now())} (${formatInstant(expectedAt)})`);
    if (state === "ready") lines.push(`ready jobs like this one: ${readyLikeThis}`);
    terminal.writeOut(`${lines.join("\n")}\n`);
    return 0;
  },
};
