/** A partition that fails, in words: for descriptions, explanations and operators. */
import type { MissingPartition } from "../store.ts";

export function missingSentence({ number, failures, error }: MissingPartition): string {
  const said = error instanceof Error ? error.message : String(error);
  const times = failures === 1 ? "once" : `${failures} times in a row`;
  return `Partition ${number} of the store failed ${times} and is passed over until it answers: its jobs may lack in lists and counts, and may not run. (${said})`;
}
