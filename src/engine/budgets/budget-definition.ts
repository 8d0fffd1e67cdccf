/**
 * A budget as code defines it, and its use by a job: named amounts (tokens, cents, seconds) per period, of all jobs and
 * of each key. It needs no store; the first use by a process makes sure that the store knows it
 * (engine/limits/limits-in-use.ts).
 */
import { readBudget } from "../../model/budgets/budget.ts";
import type { BudgetOptions, BudgetSettings } from "../../model/budgets/budget.ts";
import { budgetGateKey } from "../../model/limits/gate.ts";
import type { GateUse } from "../../model/limits/gate.ts";
import { checkName } from "../../model/name.ts";
import { checkOptions, invalidOption } from "../../model/option.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import { gatesOf } from "../limits/limit-definition.ts";
import type { AnyLimitUse } from "../limits/limit-definition.ts";
import { readKey } from "../submit/group.ts";
import type { OfInput } from "../submit/group.ts";

export interface BudgetUseOptions<In = unknown> {
  /** To whose account the job goes: a name, or a function that says it of the job's input. */
  key: OfInput<In, string>;
}

export interface Budget {
  readonly name: string;
  readonly budget: BudgetSettings;
  /** The budget with a key, for the `budgets` of a job. */
  // oxlint-disable-next-line no-explicit-any -- an input of unknown type must not stand in the way of its key
  use<In = any>(options: BudgetUseOptions<In>): BudgetUse<In>;
}

/** @typeParam In the input of the jobs whose key can be computed. */
// oxlint-disable-next-line no-explicit-any -- a use by some job, whichever its input is
export interface BudgetUse<In = any> {
  readonly budget: Budget;
  /** Null for a job that goes to no key's account. */
  readonly key: OfInput<In, string> | null;
}

export type AnyBudgetUse = BudgetUse<never>;

/**
 * Defines a budget.
 *
 *     const tokens = budget("tokens", { hard: 2_000_000, soft: 1_500_000, reset: { every: "1d" } });
 *     const summarise = job("summarise", { budgets: [tokens] });
 */
export function budget(name: string, options: BudgetOptions): Budget {
  checkName(name, "budget name");
  const what = `budget ${JSON.stringify(name)}`;
  const settings = readBudget(options, what);
  for (const queue of settings.queues) checkName(queue, `${what}: queues`);
  const made: Budget = {
    name,
    budget: settings,
    use<In>(use: BudgetUseOptions<In>): BudgetUse<In> {
      const { key } = checkOptions(use, `${what}: use`, ["key"]);
      return { budget: made, key: readKey<In>(key, `${what}: key`) };
    },
  };
  return Object.freeze(made);
}

export function isBudget(value: unknown): value is Budget {
  return typeof value === "object" && value !== null && "budget" in value && "use" in value;
}

/** The `budgets` of a job: sorted by name, so that equal lists are equal routes. */
export function readBudgets(value: unknown, what: string): readonly AnyBudgetUse[] {
  if (!Array.isArray(value) || value.length > storeLimits.gatesPerJobMax)
    throw invalidOption(`${what} must be a list of at most ${storeLimits.gatesPerJobMax} budgets.`);
  const uses = value.map((each) => readUse(each, what));
  const names = uses.map(({ budget: { name } }) => name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined)
    throw invalidOption(`${what}: the budget ${JSON.stringify(twice)} is given twice.`);
  return uses.toSorted((one, other) => (one.budget.name < other.budget.name ? -1 : 1));
}

function readUse(value: unknown, what: string): AnyBudgetUse {
  if (isBudget(value)) return { budget: value, key: null };
  const { budget: used, key = null } = (value ?? {}) as Partial<AnyBudgetUse>;
  if (isBudget(used)) return { budget: used, key };
  throw invalidOption(`${what}: give budgets made by budget(), or their use().`);
}

/** The gates on the route of a job with these limits and budgets, by key. */
export function gatesOfRoute({
  limits = [],
  budgets = [],
}: {
  readonly limits?: readonly AnyLimitUse[];
  readonly budgets?: readonly AnyBudgetUse[];
}): readonly GateUse[] {
  const own = gatesOf(limits);
  if (budgets.length === 0) return own;
  return [...budgets.map(({ budget: { name } }) => ({ key: budgetGateKey(name), weight: 1 })), ...own];
}
