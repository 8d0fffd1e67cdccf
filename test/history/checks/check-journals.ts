/**
 * Journals of durable runs: invariants 60 to 62. If the order of all calls is known, every journal is kept here once
 * more, call by call, and must be the one that the store answers with.
 */
import { storeLimits } from "../../../src/store/contract-limits.ts";
import type { Entry, EntryPut } from "../../../src/store/records.ts";
import type { JournalAct } from "../journal-acts.ts";
import { isBefore, lifeKey } from "../ledger.ts";
import type { Ledger, Violation } from "../ledger.ts";

export function* checkJournals(ledger: Ledger): Generator<Violation> {
  const actsOf = Map.groupBy(ledger.journalActs, ({ id }) => id);
  for (const [id, acts] of actsOf) {
    const isKnown = acts.every(({ how, call }) => how !== "unknown" && call.order !== null);
    if (isKnown && !ledger.reborn.has(id)) yield* journalIsAsAcknowledged(ledger, id, acts);
    yield* nothingWaitsInVain(ledger, id, acts);
  }
  for (const [id, entries] of ledger.journals) yield* journalIsInOrder(id, entries);
  yield* suspendedJobsHoldNothing(ledger);
}

/** A journal as the acknowledged calls have made it. */
class KeptAgain {
  #entries: (EntryPut & { isForeign: boolean; isUnread: boolean })[] = [];
  #heard: string[] = [];

  get keys(): readonly string[] {
    return this.#entries.map(({ key }) => key);
  }

  has(key: string): boolean {
    return this.#heard.includes(key) || this.keys.includes(key);
  }

  append(entries: readonly EntryPut[], isForeign: boolean): void {
    for (const entry of entries) {
      if (this.keys.includes(entry.key)) continue;
      this.#entries.push({ ...entry, isForeign, isUnread: (entry.unread ?? 0) > 0 });
      for (const number of entry.reads ?? []) {
        const read = this.#entries[number - 1];
        if (read !== undefined) read.isUnread = false;
      }
    }
  }

  beginRound(): void {
    const foreign = this.#entries.filter(({ isForeign }) => isForeign).map(({ key }) => key);
    this.#heard = [...new Set([...this.#heard, ...foreign])].slice(-storeLimits.journalKeysKeptMax);
    this.#entries = this.#entries.filter(({ isUnread }) => isUnread);
  }
}

function* journalIsAsAcknowledged(
  ledger: Ledger,
  id: string,
  acts: readonly JournalAct[],
): Generator<Violation> {
  const kept = new KeptAgain();
  for (const { how, entries, isForeign, seen, last, next, answer } of acts) {
    if (how === "repeated") {
      if (!entries.some(({ key }) => kept.has(key)))
        yield { invariant: 61, id, message: `${id}: ${keysOf(entries)} is repeated, but nobody appended it` };
      continue;
    }
    if (seen !== null && seen !== kept.keys.length)
      yield {
        invariant: 60,
        id,
        message: `${id} was settled having seen ${seen} of the ${kept.keys.length} entries of its journal`,
      };
    const again = isForeign ? entries.find(({ key }) => kept.has(key)) : undefined;
    if (again !== undefined)
      yield { invariant: 61, id, message: `${id}: ${again.key} was appended a second time` };
    kept.append(entries, isForeign);
    if (last !== null && last !== kept.keys.length)
      yield {
        invariant: 61,
        id,
        message: `${id} has ${last} entries after ${kept.keys.length} were appended`,
      };
    if (entries.length > 0 && answer?.state === "suspended")
      yield { invariant: 60, id, message: `${id}: ${keysOf(entries)} left it suspended` };
    if (next?.to === "scheduled" && next.newRound === true) kept.beginRound();
  }
  const found = ledger.journals.get(id)?.map(({ key }) => key);
  if (found !== undefined && found.join("\n") !== kept.keys.join("\n"))
    yield {
      invariant: 61,
      id,
      message: `the journal of ${id} is ${found.join(", ")}, but ${kept.keys.join(", ")} were acknowledged`,
    };
}

const keysOf = (entries: readonly EntryPut[]): string => entries.map(({ key }) => key).join(", ");

/** A suspended job must have seen the last entry: whatever order the calls had. */
function* nothingWaitsInVain(ledger: Ledger, id: string, acts: readonly JournalAct[]): Generator<Violation> {
  const record = ledger.records.get(id);
  if (record?.state !== "suspended") return;
  const last = acts.findLast(
    ({ how, next, fence }) => how === "applied" && next?.to === "suspended" && fence === record.fence,
  );
  const journal = ledger.journals.get(id) ?? [];
  if (last === undefined || last.seen === null) return;
  const own = new Set(last.entries.map(({ key }) => key));
  const unseen = journal.filter(({ number, key }) => number > (last.seen ?? 0) && !own.has(key));
  if (unseen.length > 0)
    yield {
      invariant: 60,
      id,
      message: `${id} is suspended and has not seen ${unseen.map(({ key }) => key).join(", ")}`,
    };
}

function* journalIsInOrder(id: string, entries: readonly Entry[]): Generator<Violation> {
  for (const [index, { number, at }] of entries.entries()) {
    if (number !== index + 1)
      yield { invariant: 61, id, message: `entry ${index + 1} of ${id} has the number ${number}` };
    if (at < (entries[index - 1]?.at ?? 0))
      yield { invariant: 61, id, message: `entry ${number} of ${id} is older than the one before` };
  }
  if (new Set(entries.map(({ key }) => key)).size !== entries.length)
    yield { invariant: 61, id, message: `the journal of ${id} has a key twice` };
}

function* suspendedJobsHoldNothing(ledger: Ledger): Generator<Violation> {
  for (const { id, state, leaseEndsAt, attemptEndsAt } of ledger.records.values())
    if (state === "suspended" && (leaseEndsAt !== null || attemptEndsAt !== null))
      yield { invariant: 62, id, message: `${id} is suspended and still has a lease` };
  const writesOf = Map.groupBy(ledger.writes, lifeKey);
  for (const [key, writes] of writesOf) {
    const suspend = writes.find(({ answer, settle }) => answer === "ok" && settle?.next.to === "suspended");
    if (suspend === undefined) continue;
    const { id } = suspend;
    const late = writes.find(
      ({ what, answer, call }) => what !== "settle" && answer === "ok" && isBefore(suspend.call, call),
    );
    if (late !== undefined)
      yield {
        invariant: 62,
        id,
        message: `${key}: the ${late.what} was applied after the job was suspended`,
      };
    const again = ledger.leases.find((lease) => lifeKey(lease) === key && isBefore(suspend.call, lease.call));
    if (again !== undefined)
      yield { invariant: 62, id, message: `${key} was handed out after the job was suspended` };
  }
}
