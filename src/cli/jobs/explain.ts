/** `millrace explain`: why a job is not running, and when it is expected to. */
import { command } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { formatAge, formatInstant } from "../output/format-time.ts";
import { noSuchJob } from "./no-such-job.ts";

export const explain = command({
  name: "explain",
  words: "ID",
  summary: "why a job is not running, and when it is expected to",
  options: {},
  async run({ platform, words: [id = ""], withStore, answer }) {
    const explanation = await withStore((mill) => mill.explain(id));
    if (explanation === null) throw noSuchJob(id);
    const { state, why, expectedAt, readyLikeThis } = explanation;
    // Of a job that has ended the sentence names the state itself.
    const lines = [why.startsWith("It ended as ") ? escapeText(why) : `${state}: ${escapeText(why)}`];
    if (expectedAt !== null)
      lines.push(`expected ${formatAge(expectedAt, platform.now())} (${formatInstant(expectedAt)})`);
    if (state === "ready") lines.push(`ready jobs like this one: ${readyLikeThis}`);
    answer(explanation, lines.join("\n"));
  },
});
