/** `millrace signal`: sends a signal to a durable run. */
import type { KeyedSignalAnswer } from "../../client/durable/signals.ts";
import { flag, readJson, text } from "../arguments/option-kinds.ts";
import { command } from "../command.ts";
import { escapeText } from "../output/escape.ts";

export const signal = command({
  name: "signal",
  words: "ID NAME [JSON]",
  summary: "send a signal to a durable run, which goes on if it waits for it",
  options: {
    "by-key": flag("ID is a business key: for the runs that wait there, or the first one that will"),
    key: text("KEY", "a second signal with this key changes nothing"),
    source: text("WHO", "who sends it: an approval counts distinct sources"),
  },
  examples: [
    `signal order-17 paid '{"ref":"visa"}' --key event-1`,
    `signal "payment 4711" paid '{"ref":"visa"}' --by-key`,
  ],
  async run({ words: [id = "", name = "", given], options, withStore, answer }) {
    const value = given === undefined ? undefined : readJson(given, "The value");
    const { "by-key": isByKey = false, ...how } = options;
    if (isByKey) {
      const sent = await withStore((mill) => mill.signal({ key: id }, name, value, how));
      answer({ key: id, ...sent }, `${escapeText(id)}: ${keyedSentence(sent)}`);
      return sent.kind === "refused" ? 1 : 0;
    }
    const sent = await withStore((mill) => mill.signal(id, name, value, how));
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

function keyedSentence({ kind, runs }: KeyedSignalAnswer): string {
  switch (kind) {
    case "delivered":
      return runs === 1 ? "one run has the signal" : `${runs} runs have the signal`;
    case "buffered":
      return "no run waits there; the first one that does within a day gets the signal";
    case "duplicate":
      return "a signal with this key was sent there before";
    case "refused":
      return "the runs that wait there have too many signals that they have not taken";
  }
}
