/**
 * The bounds of the budgets that this process uses. They are read again after a second, so an operator's edit holds in
 * every process within that time; the duty budget-reset finds what a process counted under older bounds meanwhile.
 */
import { BoundedMap } from "../../model/bounded-map.ts";
import { boundsOfKey, budgetOf } from "../../model/budgets/budget.ts";
import type { BudgetBounds, BudgetSettings } from "../../model/budgets/budget.ts";
import type { Needs } from "../services.ts";
import { unknownBudget } from "../limits/limits-in-use.ts";
import { gateOfBudget } from "./budget-docs.ts";
import { readBudgetGates } from "./change-budget.ts";

export interface Bounds {
  readonly settings: BudgetSettings;
  /** Of the whole budget, and of the key if one was named. */
  readonly own: BudgetBounds;
  readonly ofKey: BudgetBounds | null;
  /** The budget or the key is spent. */
  readonly isClosed: boolean;
}

interface Read {
  readonly bounds: Promise<Bounds>;
  readonly untilUs: number;
}

const freshMs = 1000;
const scopesMax = 10_000;

export class KnownBounds {
  readonly #needs: Needs<"store" | "platform">;
  readonly #reads = new BoundedMap<string, Read>(scopesMax);

  constructor(needs: Needs<"store" | "platform">) {
    this.#needs = needs;
  }

  /** Refused as `unknown-budget` if the store does not know it. */
  of(budget: string, key: string | null): Promise<Bounds> {
    const scope = gateOfBudget(budget, key);
    const nowUs = this.#needs.platform.monotonicUs();
    const known = this.#reads.get(scope);
    if (known !== undefined && known.untilUs > nowUs) return known.bounds;
    const bounds = readBounds(this.#needs.store, budget, key);
    this.#reads.set(scope, { bounds, untilUs: nowUs + freshMs * 1000 });
    // What could not be read is read again by the next call.
    bounds.catch(() => this.forget(budget, key));
    return bounds;
  }

  /** Called after a change in this process. */
  forget(budget: string, key: string | null): void {
    this.#reads.delete(gateOfBudget(budget, key));
  }
}

export async function readBounds(
  store: Needs<"store">["store"],
  budget: string,
  key: string | null,
): Promise<Bounds> {
  const keys = [gateOfBudget(budget, null), ...(key === null ? [] : [gateOfBudget(budget, key)])];
  const [own, ofKey = null] = await readBudgetGates(store, keys);
  const settings = own === undefined ? null : budgetOf(own.body);
  if (settings === null) throw unknownBudget(budget);
  const isClosed = [own, ofKey].some((found) => (found?.gate?.closedUntil ?? 0) > (found?.now ?? 0));
  const boundsOf = key === null ? null : boundsOfKey(settings, ofKey?.body ?? null);
  return { settings, own: settings, ofKey: boundsOf, isClosed };
}
