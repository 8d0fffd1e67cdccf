/** The cases and vectors about journals as skips, for a store that has none yet (has-journals.ts). */
import { hasJournals } from "./has-journals.ts";
import type { JournalStore } from "./has-journals.ts";
import { journalScripts, wakeScripts } from "./journal-scripts.ts";
import { journalCases } from "./cases/durable/journal-cases.ts";
import { roundCases } from "./cases/durable/round-cases.ts";
import { suspendCases } from "./cases/durable/suspend-cases.ts";

const groups = [journalCases, suspendCases, roundCases];
const vectors = [...wakeScripts, ...journalScripts];
const titles = [...groups.flatMap(({ cases }) => cases), ...vectors].map(([title]) => title);

export function journalSkips(store: JournalStore): Readonly<Record<string, string>> {
  if (hasJournals[store]) return {};
  return Object.fromEntries(titles.map((title) => [title, "this store keeps no journals yet"]));
}
