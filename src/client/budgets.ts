/**
 * Reads and changes budgets for all processes of the store. The code's definition is the default; an edit holds until
 * the code's own definition changes. A call with a key concerns that key of the budget alone.
 */
import { actOnCount } from "../engine/budgets/act-on-counts.ts";
import type { ActNeeds } from "../engine/budgets/act-on-counts.ts";
import { isBudget } from "../engine/budgets/budget-definition.ts";
import type { Budget } from "../engine/budgets/budget-definition.ts";
import {
  countId,
  countKind,
  docsOf,
  gateOfBudget,
  holdKind,
  readCountId,
} from "../engine/budgets/budget-docs.ts";
import type { HoldBody } from "../engine/budgets/budgets.ts";
import { changeBudgetGate, foundGate, readBudgetGates } from "../engine/budgets/change-budget.ts";
import type { FoundBudgetGate } from "../engine/budgets/change-budget.ts";
import { allDocs } from "../engine/docs/all-docs.ts";
import { allGates } from "../engine/limits/change-gate.ts";
import { unknownBudget } from "../engine/limits/limits-in-use.ts";
import { afterWrite } from "../engine/calls/one-call.ts";
import type { Needs } from "../engine/services.ts";
import {
  afterBudgetEdit,
  boundsOfKey,
  budgetOf,
  checkedBounds,
  readAmount,
  readBudgetEdit,
} from "../model/budgets/budget.ts";
import type { BudgetBounds, BudgetEdit, BudgetSettings, OnBreach } from "../model/budgets/budget.ts";
import { periodAt, startOfPeriod } from "../model/budgets/period.ts";
import type { Period } from "../model/budgets/period.ts";
import { budgetGateKey, gateName } from "../model/limits/gate.ts";
import { checkName } from "../model/name.ts";
import { checkOptions, invalidOption } from "../model/option.ts";
import { keyOfGate } from "../model/routing/lane.ts";
import type { ScheduleRule } from "../model/schedule/schedule-rule.ts";

type BudgetsClientNeeds = ActNeeds & Needs<"budgets">;

/** What was used in a period. */
export interface PeriodSpend {
  /** The name of the period, for a refund in it. */
  readonly period: string;
  readonly startsAt: Date;
  readonly spent: number;
}

export interface BudgetState extends BudgetBounds {
  readonly name: string;
  /** The key; null for the whole budget. */
  readonly key: string | null;
  /** The bounds of each key that has no edit of its own. */
  readonly perKey: BudgetBounds;
  readonly reset: ScheduleRule;
  readonly onBreach: OnBreach;
  readonly queues: readonly string[];
  readonly keep: number;
  /** What an operator has edited; null for nothing. */
  readonly edited: BudgetEdit | null;
  /** The present period. */
  readonly period: string;
  readonly startsAt: Date;
  readonly endsAt: Date;
  /** What was used and reserved in the period. */
  readonly spent: number;
  /** How much of that is reserved and not settled yet. */
  readonly reserved: number;
  /** What is left until the hard bound, 0 once it is reached; null without one. */
  readonly left: number | null;
  /** Until when no job with the budget starts; null if it is not spent. */
  readonly heldUntil: Date | null;
}

export interface BudgetDetails extends BudgetState {
  /** The kept periods, newest first. */
  readonly periods: readonly PeriodSpend[];
  /** What the keys have used in the present period, the greatest first; of the whole budget only. */
  readonly keys: readonly { readonly key: string; readonly spent: number }[];
}

export interface BudgetKeyOptions {
  key?: string;
}

export interface RefundOptions extends BudgetKeyOptions {
  /** The period, as `periods` of the details name it; the present one by default. */
  period?: string;
}

/** A bound that is left out stays; null is as the code defines it. */
export interface BudgetChange {
  hard?: number | null;
  soft?: number | null;
  perKey?: { hard?: number | null; soft?: number | null };
}

const keysShownMax = 1000;

interface FoundBudget {
  readonly settings: BudgetSettings;
  readonly own: FoundBudgetGate;
  readonly ofKey: FoundBudgetGate | null;
  readonly bounds: BudgetBounds;
  readonly period: Period;
}

export class BudgetsClient {
  readonly #needs: BudgetsClientNeeds;

  constructor(needs: BudgetsClientNeeds) {
    this.#needs = needs;
  }

  /** Makes the budget known to the store before its first use, such as an enqueue inside a transaction. */
  async define(budget: Budget): Promise<BudgetState> {
    if (!isBudget(budget)) throw invalidOption("budgets.define: give a budget made by budget().");
    await this.#needs.limits.defineBudgets([{ budget }]);
    return afterWrite("budgets.define", this.#state(budget.name, null));
  }

  /** All budgets that the store knows, by name. */
  async list(): Promise<readonly BudgetState[]> {
    const states: BudgetState[] = [];
    for await (const { gate, now } of allGates(this.#needs.store, budgetGateKey(""))) {
      const found = this.#found(foundGate(gate, now), null, null);
      if (found !== null) states.push(await this.#view(gateName(gate.key), null, found));
    }
    return states;
  }

  /** A budget, or one key of it, with its past periods; `unknown-budget` if the store does not know it. */
  async get(name: string, options: BudgetKeyOptions = {}): Promise<BudgetDetails> {
    const { budget, key } = readScope(name, options, "budgets.get");
    const { store } = this.#needs;
    const state = await this.#state(budget, key);
    const periods: PeriodSpend[] = [];
    const keys: { key: string; spent: number }[] = [];
    for await (const { id, body } of allDocs(store, { kind: countKind, prefix: docsOf(budget) })) {
      const count = readCountId(id);
      if (count === null) continue;
      const { period } = count;
      if (count.key === key)
        periods.unshift({ period, startsAt: new Date(startOfPeriod(period)), spent: Number(body) });
      else if (key === null && count.key !== null && period === state.period)
        keys.push({ key: count.key, spent: Number(body) });
    }
    keys.sort((one, other) => other.spent - one.spent);
    return { ...state, periods, keys: keys.slice(0, keysShownMax) };
  }

  /**
   * Changes the bounds, of all or of one key. It holds in every process within a second; jobs that are held by a bound
   * that was raised start at once.
   */
  async edit(name: string, edit: BudgetChange, options: BudgetKeyOptions = {}): Promise<BudgetState> {
    const { budget, key } = readScope(name, options, "budgets.edit");
    const given = readBudgetEdit(edit, "budgets.edit", key !== null);
    const { settings } = await this.#read(budget, key);
    await changeBudgetGate(this.#needs.store, gateOfBudget(budget, key), ({ body }) => {
      const next = afterBudgetEdit(body, given);
      const whole = key === null ? (budgetOf(next) ?? settings) : settings;
      checkedBounds(key === null ? whole : boundsOfKey(settings, next), "budgets.edit");
      checkedBounds(whole.perKey, "budgets.edit: perKey");
      return { body: next };
    });
    return afterWrite("budgets.edit", this.#act(budget, key));
  }

  /** Begins the present period anew: what was used counts as 0, and what is reserved stays. */
  async reset(name: string, options: BudgetKeyOptions = {}): Promise<BudgetState> {
    const { budget, key } = readScope(name, options, "budgets.reset");
    const { spent, reserved, period } = await this.#state(budget, key);
    if (spent !== reserved) await this.#needs.budgets.take({ budget, key, period }, spent - reserved);
    return afterWrite("budgets.reset", this.#act(budget, key));
  }

  /** Takes back a part of what was used, such as a call that upstream has not charged. */
  async refund(name: string, amount: number, options: RefundOptions = {}): Promise<BudgetState> {
    const { period: given, ...scope } = checkOptions(options, "budgets.refund", ["key", "period"]);
    const { budget, key } = readScope(name, scope, "budgets.refund");
    const by = readAmount(amount, "budgets.refund: the amount");
    const state = await this.#state(budget, key);
    const period = given === undefined ? state.period : String(given);
    const { docs } = await this.#needs.store.readDocs({
      kind: countKind,
      ids: [countId({ budget, period, key })],
    });
    const spent = Number(docs[0]?.body ?? 0);
    if (by > spent)
      throw invalidOption(
        `budgets.refund ${JSON.stringify(budget)}: ${by} is more than the ${spent} that were used in the period ${JSON.stringify(period)}.`,
      );
    await this.#needs.budgets.take({ budget, key, period }, by);
    return afterWrite("budgets.refund", this.#act(budget, key));
  }

  async #act(budget: string, key: string | null): Promise<BudgetState> {
    const needs = this.#needs;
    needs.budgets.changed(budget, key);
    const { period, own } = await this.#read(budget, null);
    const keys = key === null ? await this.#closedKeys(budget, own.now) : [key];
    for (const each of [null, ...keys]) await actOnCount(needs, { budget, period: period.id, key: each });
    return this.#state(budget, key);
  }

  /** An edit of the bounds of all keys may open those that are held. */
  async #closedKeys(budget: string, now: number): Promise<readonly string[]> {
    const keys: string[] = [];
    let after: string | null = null;
    do {
      const page: Awaited<ReturnType<BudgetsClientNeeds["store"]["readGates"]>> =
        await this.#needs.store.readGates({ prefix: gateOfBudget(budget, ""), after, max: 500 });
      for (const { key, closedUntil } of page.gates)
        if (closedUntil !== null && closedUntil > now) keys.push(keyOfGate(key));
      after = page.cursor;
    } while (after !== null);
    return keys;
  }

  async #state(budget: string, key: string | null): Promise<BudgetState> {
    return this.#view(budget, key, await this.#read(budget, key));
  }

  async #read(budget: string, key: string | null): Promise<FoundBudget> {
    const keys = [gateOfBudget(budget, null), ...(key === null ? [] : [gateOfBudget(budget, key)])];
    const [own, ofKey = null] = await readBudgetGates(this.#needs.store, keys);
    const found = own === undefined ? null : this.#found(own, key, ofKey);
    if (found === null) throw unknownBudget(budget);
    return found;
  }

  #found(own: FoundBudgetGate, key: string | null, ofKey: FoundBudgetGate | null): FoundBudget | null {
    const settings = budgetOf(own.body);
    if (settings === null) return null;
    const bounds = key === null ? settings : boundsOfKey(settings, ofKey?.body ?? null);
    return { settings, own, ofKey, bounds, period: periodAt(settings.reset, own.now) };
  }

  async #view(
    name: string,
    key: string | null,
    { settings, own, ofKey, bounds, period }: FoundBudget,
  ): Promise<BudgetState> {
    const { store } = this.#needs;
    const count = countId({ budget: name, period: period.id, key });
    const { docs } = await store.readDocs({ kind: countKind, ids: [count] });
    const spent = Number(docs[0]?.body ?? 0);
    const reserved = await this.#reserved(name, key, period.id);
    const { edited } = key === null ? own.body : (ofKey?.body ?? { edited: {} });
    const until = [own, ofKey].map((found) => found?.gate?.closedUntil ?? 0);
    const heldUntil = Math.max(...until);
    const { hard, soft } = bounds;
    const { perKey, reset, onBreach, queues, keep } = settings;
    return {
      ...{ name, key, hard, soft, perKey, reset, onBreach, queues, keep },
      edited: Object.keys(edited).length === 0 ? null : edited,
      ...{ period: period.id, startsAt: new Date(period.startsAt), endsAt: new Date(period.endsAt) },
      ...{ spent, reserved, left: hard === null ? null : Math.max(0, hard - spent) },
      heldUntil: heldUntil > own.now ? new Date(heldUntil) : null,
    };
  }

  async #reserved(budget: string, key: string | null, period: string): Promise<number> {
    let sum = 0;
    for await (const { body } of allDocs(this.#needs.store, { kind: holdKind, prefix: docsOf(budget) })) {
      const hold = JSON.parse(body) as HoldBody;
      if (hold.end !== undefined || hold.period !== period) continue;
      if (key === null || hold.key === key) sum += hold.amount;
    }
    return sum;
  }
}

function readScope(
  name: unknown,
  options: unknown,
  what: string,
): { readonly budget: string; readonly key: string | null } {
  const { key } = checkOptions(options, what, ["key"]);
  return {
    budget: checkName(name, `${what}: name`),
    key: key === undefined ? null : checkName(key, `${what}: key`),
  };
}
