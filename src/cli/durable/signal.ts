/** `millrace signal`: sends a signal to a durable run. */
import { readJson, text } from "../arguments/option-kinds.ts";
import { command } from "../command.ts";
import { escapeText } from "../output/escape.ts";

export const signal = command({
  name: "signal",
  words: "ID NAME [JSON]",
  summary: "send a signal to a durable run, which goes on if it waits for it",
  options: {
    key: text("KEY", "a second signal with this key changes nothing"),
    source: text("WHO", "who sends it: an approval counts distinct sources"),
  },
  examples: [`signal order-17 paid '{"ref":"visa"}' --key event-1`],
  async run({ words: [id = "", name = "", given], options, withStore, answer }) {
    const value = given === undefined ? undefined : readJson(given, "The value");
    const sent = await withStore((mill) => mill.signal(id, name, value, options));
    const sentence = {
      delivered: "goes on",
      buffered: "has the signal, and does not wait for it now",
      duplicate: "had a signal with this key",
      refused: "takes no signal",
    }[sent.kind];
    const why = sent.kind === "refused" ? `: ${sent.reason}` : "";
    answer({ id, ...sent }, `${escapeText(id)} ${sentence}${why}`);
    return sent.kind === "refused" ? 1 : 0;
  },
});
