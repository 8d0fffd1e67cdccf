/** What the commands that change one job share: the change is made, and one line (or document) says that it was. */
import type { Millrace } from "../../client/millrace.ts";
import type { Call } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { existingStoreUrl, withMillrace } from "../store/open-store.ts";
import { toJson } from "../output/print-json.ts";

/** @param answer what became of the job: a word for the document, a sentence for people. */
export async function changeOne(
  call: Call,
  answer: { readonly word: string; readonly told: string },
  change: (mill: Millrace, id: string) => Promise<void>,
): Promise<number> {
  const { terminal, words, wantsJson } = call;
  const id = words[0] as string;
  await withMillrace(call, await existingStoreUrl(call), (mill) => change(mill, id));
  terminal.writeOut(
    wantsJson ? `${toJson({ id, answer: answer.word })}\n` : `${escapeText(id)} ${answer.told}\n`,
  );
  return 0;
}
