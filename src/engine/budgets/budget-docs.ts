/**
 * The documents of budgets. All of one budget lie in one partition, because a unit adds to the counts of the budget and
 * of a key in one step: their ids begin with the name in braces.
 *
 *   budget-count   {tokens}TAB2026-11-18T00:00:00Z          the amount of a period, a counter (rule R9)
 *                  {tokens}TAB2026-11-18T00:00:00ZTABacme   the same for the key "acme"
 *   budget-work    the id of a count that has passed a mark: deferred work, due at once
 *   budget-hold    {tokens}TABid                            a reservation; the duty budget-reset looks after it
 *   budget-ledger  {0}id                                    which reports of a process are counted (ledger.ts)
 */
import { startOfPeriod } from "../../model/budgets/period.ts";
import { budgetGateKey } from "../../model/limits/gate.ts";
import { keyedGate } from "../../model/routing/lane.ts";

export const countKind = "budget-count";
export const workKind = "budget-work";
export const holdKind = "budget-hold";
export const ledgerKind = "budget-ledger";

const separator = "\t";

/** What a count is about. */
export interface CountName {
  readonly budget: string;
  /** The id of the period. */
  readonly period: string;
  readonly key: string | null;
}

export const docsOf = (budget: string): string => `{${budget}}${separator}`;

export function countId({ budget, period, key }: CountName): string {
  return `${docsOf(budget)}${period}${key === null ? "" : `${separator}${key}`}`;
}

/** Null for an id that no count has. */
export function readCountId(id: string): CountName | null {
  const [name = "", period = "", key = null] = id.split(separator);
  if (!name.startsWith("{") || !name.endsWith("}") || Number.isNaN(startOfPeriod(period))) return null;
  return { budget: name.slice(1, -1), period, key };
}

/** The gate of a budget, or of one of its keys. */
export function gateOfBudget(budget: string, key: string | null): string {
  const gate = budgetGateKey(budget);
  return key === null ? gate : keyedGate(gate, key);
}
