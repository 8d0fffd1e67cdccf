/** The journals of runs as people look at them: what each has done, and what it waits for. No lease is needed. */
import { roundOf } from "../../model/durable/durable-marks.ts";
import { readEntry } from "../../model/durable/entry-text.ts";
import type { JournalEntry } from "../../model/durable/journal-entry.ts";
import { stepsOf } from "../../model/durable/run-steps.ts";
import type { RunStep } from "../../model/durable/run-steps.ts";
import type { JournalAnswer } from "../../store/operations.ts";
import type { Store } from "../../store/store.ts";
import type { Needs } from "../services.ts";

export interface RunJournalView {
  readonly round: number;
  readonly entries: readonly JournalEntry[];
  readonly steps: readonly RunStep[];
  /** The store's time. */
  readonly now: number;
}

const pageMax = 1000;

/** Null if there is no such job. */
export async function readRun(needs: Needs<"store">, id: string): Promise<RunJournalView | null> {
  const [run = null] = await readRuns(needs, [id]);
  return run;
}

/** In the order of the ids; null for each that is no job. */
export async function readRuns(
  needs: Needs<"store">,
  ids: readonly string[],
): Promise<readonly (RunJournalView | null)[]> {
  const journals = ids.map((id) => new PagedJournal(id));
  for (let left = journals; left.length > 0; left = left.filter(({ isWhole }) => !isWhole)) {
    const reads = left.map(({ id, entries }) => ({ id, after: entries.length, max: pageMax }));
    const answers = await needs.store.readJournal(reads);
    for (const [at, journal] of left.entries()) journal.take(answers[at]);
  }
  return journals.map(({ view }) => view);
}

/**
 * With which version of its handler each run began, in the order of the ids; null for one that has not begun, or that
 * cannot be read.
 */
export async function readVersions(
  { store }: { readonly store: Pick<Store, "readJournal"> },
  ids: readonly string[],
): Promise<readonly (number | null)[]> {
  if (ids.length === 0) return [];
  // Only entries of others, which are few, can be before it.
  const answers = await store.readJournal(ids.map((id) => ({ id, after: 0, max: versionAmongMax })));
  return answers.map((answer) => {
    if (answer.kind !== "ok") return null;
    for (const { body } of answer.entries.map(readEntry)) if (body.kind === "version") return body.version;
    return null;
  });
}

const versionAmongMax = 10;

class PagedJournal {
  readonly id: string;
  readonly entries: JournalEntry[] = [];
  isWhole = false;
  view: RunJournalView | null = null;

  constructor(id: string) {
    this.id = id;
  }

  take(answer: JournalAnswer | undefined): void {
    const { entries } = this;
    this.isWhole = true;
    if (answer?.kind !== "ok") return;
    const [first] = answer.entries;
    if (first !== undefined && first.number !== entries.length + 1) {
      // A new round has begun meanwhile, with numbers from 1 on.
      entries.length = 0;
      this.isWhole = false;
      return;
    }
    entries.push(...answer.entries.map(readEntry));
    if (first !== undefined && entries.length < answer.last) {
      this.isWhole = false;
      return;
    }
    this.view = { round: roundOf(answer.durable), entries, steps: stepsOf(entries), now: answer.now };
  }
}
