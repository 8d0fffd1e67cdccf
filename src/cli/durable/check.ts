/** `millrace check`: which runs in flight the handlers of a file could not continue. */
import { whole } from "../arguments/option-kinds.ts";
import { command } from "../command.ts";
import { declaredBy } from "../load-config.ts";
import { escapeText } from "../output/escape.ts";

const shownMax = 50;

export const check = command({
  name: "check",
  words: "[FILE]",
  summary: "durable runs in flight that the handlers of a file could not continue; run it before a deploy",
  options: { limit: whole("N", "how many runs of each job are replayed, 10000 by default", 1, 1_000_000) },
  examples: ["check ./handlers.ts", "check dist/jobs.js --json"],
  async run({ words: [file], config, options: { limit = 10_000 }, withStore, answer }) {
    const { handlers } = await declaredBy(file, config);
    const found = await withStore((mill) => mill.runs.check(handlers, { limit }));
    answer(found, () => {
      const lines = found.broken
        .slice(0, shownMax)
        .map(({ id, name, why }) => `${escapeText(name)} ${escapeText(id)}: ${escapeText(why)}`);
      const more = found.broken.length - lines.length;
      const sum = `${found.checked} ${found.checked === 1 ? "run" : "runs"} replayed, ${found.broken.length} could not go on`;
      return [...lines, ...(more > 0 ? [`and ${more} more`] : []), sum].join("\n");
    });
    return found.broken.length === 0 ? 0 : 1;
  },
});
