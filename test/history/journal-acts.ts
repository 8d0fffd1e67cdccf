/** What the calls of a run have done to journals of durable runs, as the store answered them. */
import type { ChangeNext, SettleNext } from "../../src/model/job/change.ts";
import { isLocked } from "../../src/store/operations.ts";
import type { Change, ChangeAnswer, LeasedWrite, RecordAnswer, Settle } from "../../src/store/operations.ts";
import type { EntryPut } from "../../src/store/records.ts";
import type { Operation, StoreCall } from "./history.ts";

export interface JournalAct {
  readonly id: string;
  readonly call: StoreCall;
  /** In its call. */
  readonly index: number;
  /** `unknown`: nobody knows whether it was applied. */
  readonly how: "applied" | "repeated" | "unknown";
  readonly entries: readonly EntryPut[];
  readonly isForeign: boolean;
  /** Under which the worker appended; null for somebody else. */
  readonly fence: number | null;
  /** The number that a settle named. */
  readonly seen: number | null;
  /** The last number of the journal, as the answer has it. */
  readonly last: number | null;
  readonly next: ChangeNext | SettleNext | null;
  readonly answer: Extract<ChangeAnswer, { kind: "ok" }> | null;
}

export function readJournalActs(operations: readonly Operation[]): JournalAct[] {
  return operations
    .flatMap((call) => {
      if (call.kind === "recordIfLeased")
        return call.request.map((write, index) => ofRecord(call, index, write, call.answer?.[index]));
      if (call.kind === "settleIfLeased")
        return call.request.map((settle, index) => ofSettle(call, index, settle, call.answer?.[index]?.kind));
      if (call.kind !== "changeIf") return [];
      return call.request.map((change, index) => {
        const answer = call.answer?.[index];
        return isLocked(answer) ? null : ofChange(call, index, change, answer);
      });
    })
    .filter((act) => act !== null)
    .toSorted((one, other) => (one.call.order ?? 0) - (other.call.order ?? 0) || one.index - other.index);
}

const own = { isForeign: false, seen: null, last: null, next: null, answer: null };

function ofRecord(
  call: StoreCall,
  index: number,
  { id, fence, entries }: LeasedWrite,
  answer: RecordAnswer | { readonly kind: "locked" } | undefined,
): JournalAct | null {
  if (entries === undefined) return null;
  const act = { ...own, id, call, index, entries, fence };
  if (answer === undefined) return call.seen === "unknown" ? { ...act, how: "unknown" } : null;
  if (typeof answer !== "object" || answer.kind !== "appended") return null;
  return { ...act, how: "applied", last: answer.last };
}

function ofSettle(
  call: StoreCall,
  index: number,
  { id, fence, journal, next }: Settle,
  kind: string | undefined,
): JournalAct | null {
  const { seen = null, entries = [] } = journal ?? {};
  const act = { ...own, id, call, index, entries, fence, seen, next };
  if (kind === undefined) return call.seen === "unknown" ? { ...act, how: "unknown" } : null;
  return kind === "ok" ? { ...act, how: "applied" } : null;
}

function ofChange(
  call: StoreCall,
  index: number,
  { id, cases }: Change,
  answer: ChangeAnswer | undefined,
): JournalAct | null {
  const act = { ...own, id, call, index, isForeign: true, fence: null };
  const all = cases.flatMap(({ append }) => (append === undefined ? [] : [append.entry]));
  if (answer === undefined) return call.seen === "unknown" ? { ...act, how: "unknown", entries: all } : null;
  if (answer.kind === "repeated") return { ...act, how: "repeated", entries: all };
  if (answer.kind !== "ok") return null;
  const { append, next = null } = cases[answer.applied] ?? {};
  return { ...act, how: "applied", entries: append === undefined ? [] : [append.entry], next, answer };
}
