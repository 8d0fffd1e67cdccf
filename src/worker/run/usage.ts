/**
 * `usage` of a handler's context and of a step: what the attempt has used of budgets. A report counts what was used, so
 * an attempt that runs again counts again. A reservation is refused if it does not fit; a handler that does not catch
 * that comes again when the period ends, and holds no slot meanwhile.
 */
import type { Budget } from "../../engine/budgets/budget-definition.ts";
import { isBudget } from "../../engine/budgets/budget-definition.ts";
import { gateOfBudget } from "../../engine/budgets/budget-docs.ts";
import { BudgetSpent } from "../../engine/budgets/budgets.ts";
import type { PutHold } from "../../engine/budgets/budgets.ts";
import type { Needs } from "../../engine/services.ts";
import { amountMax, readAmount } from "../../model/budgets/budget.ts";
import { MillraceError } from "../../model/error.ts";
import { checkName } from "../../model/name.ts";
import { checkOptions, checkWhole } from "../../model/option.ts";
import { keyOfGate } from "../../model/routing/lane.ts";
import { keyUsesOf } from "../../store/rules/gates/lane-change.ts";
import { Snooze, withControlOf } from "../control.ts";
import type { Attempt } from "./attempt.ts";

export interface UsageOptions {
  /** To whose account it goes. Default: the key with which the job uses this budget, if it has one. */
  key?: string;
}

/** An amount that is reserved until it is settled, or given back at the end of its block. */
export interface Hold extends AsyncDisposable {
  readonly amount: number;
  /** Counts what was really used; also 0, and also more than was reserved. */
  settle(actual: number): Promise<void>;
}

export interface Usage {
  /**
   * Counts what was used, once per call, also above the bound. It resolves when the count is written.
   *
   *     await usage.report(tokens, reply.tokens);
   */
  report(budget: Budget | string, amount: number, options?: UsageOptions): Promise<void>;
  /**
   * Takes an amount before it is used; never above the bound.
   *
   *     await using hold = await usage.reserve(tokens, 8_000);
   *     const reply = await model.ask(question);
   *     await hold.settle(reply.tokens);
   */
  reserve(budget: Budget | string, amount: number, options?: UsageOptions): Promise<Hold>;
}

export type UsageNeeds = Needs<"platform" | "budgets" | "reads" | "log">;

export class AttemptUsage implements Usage {
  readonly #needs: UsageNeeds;
  readonly #attempt: Attempt;

  constructor(needs: UsageNeeds, attempt: Attempt) {
    this.#needs = needs;
    this.#attempt = attempt;
  }

  readonly report: Usage["report"] = async (budget, amount, options = {}) => {
    const given = this.#read("usage.report", budget, amount, options);
    const key = given.key ?? (await this.#ownKey(given.name));
    await this.#needs.budgets.report({ budget, key, amount: given.amount, at: this.#now });
    this.#attempt.spend(given.name, given.amount);
  };

  readonly reserve: Usage["reserve"] = async (budget, amount, options = {}) => {
    const given = this.#read("usage.reserve", budget, amount, options);
    const key = given.key ?? (await this.#ownKey(given.name));
    const { id, seq, fence } = this.#attempt.job;
    const usage = { budget, key, amount: given.amount, at: this.#now, lease: { id, seq, fence } };
    try {
      return this.#held(await this.#needs.budgets.reserve(usage));
    } catch (error) {
      if (!(error instanceof BudgetSpent)) throw error;
      throw withControlOf(error, new Snooze(Math.max(1, error.opensAt - this.#now)));
    }
  };

  #held(put: PutHold): Hold {
    const { budgets, log } = this.#needs;
    const { budget, amount } = put.body;
    let isEnded = false;
    return {
      amount,
      settle: async (actual) => {
        checkWhole(actual, "hold.settle", 0, amountMax);
        if (isEnded) throw new MillraceError("invalid-option", "hold.settle: this reservation has ended.");
        isEnded = true;
        await budgets.settle(put, actual);
        this.#attempt.spend(budget, actual);
      },
      [Symbol.asyncDispose]: async () => {
        if (isEnded) return;
        isEnded = true;
        // The duty releases what cannot be released now; the work of the block is done whatever becomes of it.
        await budgets.release(put).catch((error: unknown) => {
          log.warn("a reservation could not be given back now; a duty does it", { budget, error });
        });
      },
    };
  }

  #read(
    what: string,
    budget: unknown,
    amount: unknown,
    options: unknown,
  ): { readonly name: string; readonly amount: number; readonly key: string | null } {
    const name = isBudget(budget) ? budget.name : checkName(budget, `${what}: budget`);
    const titled = `${what} ${JSON.stringify(name)}`;
    const { key } = checkOptions(options, titled, ["key"]);
    const read = {
      name,
      amount: readAmount(amount, `${titled}: the amount`),
      key: key === undefined ? null : checkName(key, `${titled}: key`),
    };
    const { phase, abortReason, job } = this.#attempt;
    if (phase !== "running" || abortReason === "lease-lost")
      throw new MillraceError(
        "lease-lost",
        `${titled} of the job ${job.id} was refused: the attempt has ended, or has lost its lease. Nothing was counted.`,
      );
    return read;
  }

  get #now(): number {
    return this.#attempt.storeTimeAt(this.#needs.platform.monotonicUs());
  }

  /** The claim brings the keys of a job, unless its reply was lost. */
  async #ownKey(budget: string): Promise<string | null> {
    const { job, policy } = this.#attempt;
    if (!policy.budgets.includes(budget)) return null;
    const keys =
      job.keyGates ??
      keyUsesOf((await this.#needs.reads.add(job.id)) ?? { laneGates: null }).map(({ key }) => key);
    const prefix = gateOfBudget(budget, "");
    const own = keys.find((key) => key.startsWith(prefix));
    return own === undefined ? null : keyOfGate(own);
  }
}
