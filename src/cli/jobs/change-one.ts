/** What the commands that change one job share: the change is made, and one line (or document) says that it was. */
import type { Millrace } from "../../client/millrace.ts";
import type { Call } from "../command.ts";
import { escapeText } from "../output/escape.ts";

interface Became {
  readonly word: string;
  readonly sentence: string;
}

/** @param answer what became of the job: a word for the document, a sentence for people. */
export async function changeOne(
  { words: [id = ""], withStore, answer }: Call,
  { word, sentence = word }: { readonly word: string; readonly sentence?: string },
  change: (mill: Millrace, id: string) => Promise<void | Became>,
): Promise<void> {
  const became = (await withStore((mill) => change(mill, id))) ?? { word, sentence };
  answer({ id, answer: became.word }, `${escapeText(id)} ${became.sentence}`);
}
