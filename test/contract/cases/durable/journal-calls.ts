/** What the cases of journals ask: entries, and who appends them. */
import type { HandBack, Suspend, Update } from "../../../../src/model/job/change.ts";
import { roundStep, durableMarks } from "../../../../src/model/durable/durable-marks.ts";
import type { Append, Change, ChangeCase, LeasedWrite } from "../../../../src/store/operations.ts";
import type { Entry, EntryPut, LeaseRef } from "../../../../src/store/records.ts";
import type { Store } from "../../../../src/store/store.ts";
import { readWholeJournal } from "../../../support/walk.ts";

export const { hasJournal, hasUndo, isEnding, hasChildren } = durableMarks;
export const inRound = (round: number, marks: number): number => round * roundStep + marks;

export const anEntry = (key: string, given: Partial<EntryPut> = {}): EntryPut => ({
  key,
  body: `body of ${key}`,
  ...given,
});
/** A signal that nobody has read, of size 1. */
export const aSignal = (key: string, given: Partial<EntryPut> = {}): EntryPut =>
  anEntry(key, { unread: 1, ...given });

export const leaseOf = ({ id, seq, fence }: LeaseRef): LeaseRef => ({ id, seq, fence });
export const aRecord = (lease: LeaseRef, ...entries: readonly EntryPut[]): LeasedWrite => ({
  ...leaseOf(lease),
  entries,
});

export const suspend = (given: Partial<Suspend> = {}): Suspend => ({
  to: "suspended",
  event: "suspended",
  wake: null,
  countsAttempt: 1,
  ...given,
});
export const resume: HandBack = { to: "ready", event: "resumed", countsAttempt: 1 };
export const signalled: Update = { to: "same", event: "signalled" };

/** What somebody else appends: a suspended job becomes ready, any other live one stays as it is. */
export function anAppend(id: string, entry: EntryPut, unreadMax?: Append["unreadMax"]): Change {
  const append: Append = { entry, ...(unreadMax === undefined ? {} : { unreadMax }) };
  const cases: readonly ChangeCase[] = [
    { guard: { states: ["suspended"] }, next: resume, append },
    { guard: { states: ["running", "ready", "scheduled", "blocked"] }, next: signalled, append },
  ];
  return { id, cases };
}

/** The whole journal of a job, page by page. */
export async function journalOf(store: Store, id: string, max = 500): Promise<readonly Entry[]> {
  const found = await readWholeJournal(store, { id, after: 0, max });
  if (found.kind !== "ok") throw new Error(`the journal of ${id} is ${found.kind}`);
  return found.entries;
}

export const keysOf = async (store: Store, id: string): Promise<readonly string[]> =>
  (await journalOf(store, id)).map(({ key }) => key);
