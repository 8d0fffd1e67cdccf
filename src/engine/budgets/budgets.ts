/**
 * Usage of budgets by this process: reports, which always count, and reservations, which never go above the bound.
 *
 *   report    adds to the counts by the ledger of the process (ledger.ts)
 *   reserve   adds to the counts and puts a hold, in one unit, or nothing
 *   settle    adds the difference to what was really used, and marks the hold as settled
 *   release   takes the amount back and marks the hold as released; the duty budget-reset does it for a dead process
 *
 * An amount belongs to the period in which it is reported, and a hold to the one in which it was reserved.
 */
import { marksOf } from "../../model/budgets/breach.ts";
import { periodAt } from "../../model/budgets/period.ts";
import type { Period } from "../../model/budgets/period.ts";
import { MillraceError } from "../../model/error.ts";
import { checkName } from "../../model/name.ts";
import { invalidOption } from "../../model/option.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import type { SubmitAnswer, SubmitUnit } from "../../store/operations.ts";
import type { DocPut, LeaseRef } from "../../store/records.ts";
import { Batcher } from "../calls/batcher.ts";
import type { LimitsInUse } from "../limits/limits-in-use.ts";
import { isBudget } from "./budget-definition.ts";
import type { Budget } from "./budget-definition.ts";
import { docsOf, holdKind } from "./budget-docs.ts";
import type { CountName } from "./budget-docs.ts";
import { KnownBounds } from "./known-bounds.ts";
import type { Bounds } from "./known-bounds.ts";
import { addOf, Ledger, workOf } from "./ledger.ts";
import type { CountAdd, LedgerNeeds } from "./ledger.ts";

export interface BudgetsNeeds extends LedgerNeeds {
  readonly limits: LimitsInUse;
}

/** What is used, and on whose account. */
export interface UsageOf {
  readonly budget: Budget | string;
  readonly key: string | null;
  readonly amount: number;
  /** By the store's clock. */
  readonly at: number;
}

/** The body of a hold. */
export interface HoldBody {
  readonly budget: string;
  readonly key: string | null;
  readonly period: string;
  readonly amount: number;
  /** The attempt that holds it: it is released when this lease is gone. */
  readonly lease: LeaseRef;
  /** Absent while it is held. */
  readonly end?: "settled" | "released";
}

export interface PutHold {
  readonly id: string;
  readonly body: HoldBody;
}

/** How long an ended hold is kept, so that a repeated call finds what has become of it. */
const endedTtlMs = 3_600_000;
const triesMax = 10;

export class Budgets {
  readonly #needs: BudgetsNeeds;
  readonly #bounds: KnownBounds;
  readonly #ledger: Ledger;
  readonly #units: Batcher<SubmitUnit, SubmitAnswer>;

  constructor(needs: BudgetsNeeds) {
    const { platform, flush, giveUpMs, store } = needs;
    this.#needs = needs;
    this.#bounds = new KnownBounds(needs);
    this.#ledger = new Ledger(needs);
    this.#units = new Batcher({
      ...{ platform, flush, giveUpMs, weightMax: storeLimits.callItemsMax },
      weigh: ({ docs = [] }) => docs.length,
      call: (units) => store.submit(units),
    });
  }

  /** Counts what was used, also above the bound. It resolves when the counts are written. */
  async report(usage: UsageOf): Promise<void> {
    const { name, bounds } = await this.#boundsOf(usage);
    const period = periodAt(bounds.settings.reset, usage.at);
    await this.#ledger.add(addsOf({ ...usage, name, bounds, period: period.id }));
  }

  /** Refused as `budget-spent` if it does not fit; the error names when the period ends. */
  async reserve(usage: UsageOf & { readonly lease: LeaseRef }): Promise<PutHold> {
    const { key, amount, at, lease } = usage;
    const { name, bounds } = await this.#boundsOf(usage);
    for (const { hard } of [bounds.own, bounds.ofKey ?? bounds.own])
      if (hard !== null && amount > hard)
        throw invalidOption(
          `usage.reserve ${JSON.stringify(name)}: ${amount} never fits: the budget has ${hard} per period.`,
        );
    const period = periodAt(bounds.settings.reset, at);
    const body: HoldBody = { budget: name, key, period: period.id, amount, lease };
    const id = `${docsOf(name)}${this.#needs.ids.mint()}`;
    const hold = { kind: holdKind, id, body: JSON.stringify(body), guard: "absent" } as const;
    const adds = addsOf({ ...usage, name, bounds, period: period.id });
    const unit: SubmitUnit = {
      jobs: [],
      docs: [hold, ...adds.map((add) => addOf(add, add.bounds.hard))],
    };
    const answer = await this.#units.add(unit);
    // Nobody else knows the id: a hold that is there already was put by a call whose reply was lost.
    if (answer.kind === "ok" || answer.reason === "doc-changed") return { id, body };
    throw answer.reason === "above-ceiling" ? new BudgetSpent(name, key, amount, period) : uncountable(name);
  }

  /** Counts what was really used instead of what was reserved. */
  async settle(hold: PutHold, actual: number): Promise<void> {
    const end = await this.#end(hold, "settled", actual);
    if (end === "settled") return;
    // The duty has released it, because it saw no lease; what was used counts all the same.
    const { budget, key, period } = hold.body;
    const { bounds } = await this.#boundsOf({ budget, key });
    await this.#ledger.add(addsOf({ name: budget, key, bounds, period, amount: actual }));
  }

  async release(hold: PutHold): Promise<void> {
    await this.#end(hold, "released", 0);
  }

  /** @returns how the hold has ended, whoever ended it. */
  async #end(
    { id, body }: PutHold,
    end: NonNullable<HoldBody["end"]>,
    actual: number,
  ): Promise<NonNullable<HoldBody["end"]>> {
    const { store } = this.#needs;
    const { budget, key, period, amount } = body;
    for (let tries = 0; tries < triesMax; tries++) {
      const [doc] = (await store.readDocs({ kind: holdKind, ids: [id] })).docs;
      const found = doc === undefined ? null : (JSON.parse(doc.body) as HoldBody);
      if (doc === undefined || found?.end !== undefined) return found?.end ?? "released";
      const { bounds } = await this.#boundsOf({ budget, key });
      const ended: DocPut = {
        ...{ kind: holdKind, id, guard: { version: doc.version } },
        ...{ body: JSON.stringify({ ...body, end }), expiresInMs: endedTtlMs },
      };
      const by = actual - amount;
      const adds = by === 0 ? [] : addsOf({ name: budget, key, bounds, period, amount: by });
      const opens = by < 0 && bounds.isClosed ? adds.map(workOf) : [];
      const docs = [ended, ...adds.map((add) => addOf(add)), ...opens];
      const answer = await this.#units.add({ jobs: [], docs });
      if (answer.kind === "ok") return end;
      if (answer.reason !== "doc-changed") throw uncountable(budget);
    }
    throw new MillraceError("version-conflict", "The reservation changes all the time; try again.");
  }

  /** Takes an amount back. What a key has used was counted for the whole budget as well. */
  async take({ budget, key, period }: CountName, by: number): Promise<void> {
    const { bounds } = await this.#boundsOf({ budget, key });
    await this.#ledger.add(addsOf({ name: budget, key, bounds, period, amount: -by }));
  }

  /** Called after a change of the budget in this process. */
  changed(budget: string, key: string | null): void {
    this.#bounds.forget(budget, key);
  }

  async whenIdle(): Promise<void> {
    await Promise.all([this.#ledger.whenIdle(), this.#units.whenIdle()]);
  }

  async #boundsOf({
    budget,
    key,
  }: Pick<UsageOf, "budget" | "key">): Promise<{ readonly name: string; readonly bounds: Bounds }> {
    if (isBudget(budget)) await this.#needs.limits.defineBudgets([{ budget }]);
    const name = isBudget(budget) ? budget.name : checkName(budget, "usage: budget");
    return { name, bounds: await this.#bounds.of(name, key) };
  }
}

/** A reservation that does not fit. */
export class BudgetSpent extends MillraceError {
  /** When its period ends, by the store's clock. */
  readonly opensAt: number;

  constructor(name: string, key: string | null, amount: number, { endsAt }: Pick<Period, "endsAt">) {
    const whose = key === null ? "" : ` for the key ${JSON.stringify(key)}`;
    super(
      "budget-spent",
      `The budget ${JSON.stringify(name)}${whose} has less than ${amount} left until ${new Date(endsAt).toISOString()}.`,
    );
    this.opensAt = endsAt;
  }
}

function uncountable(name: string): MillraceError {
  return new MillraceError(
    "counter-refused",
    `Nothing can be added to a count of the budget ${JSON.stringify(name)}: it is no number, or the sum would be too large.`,
  );
}

/** An add to a count, with the bounds of the count. */
interface BoundedAdd extends CountAdd {
  readonly bounds: Bounds["own"];
}

/** The adds to the count of a budget, and to that of a key. */
export function addsOf({
  name,
  key,
  bounds,
  period,
  amount,
}: {
  readonly name: string;
  readonly key: string | null;
  readonly bounds: Bounds;
  readonly period: string;
  readonly amount: number;
}): readonly BoundedAdd[] {
  const countOf = (ofKey: string | null): CountName => ({ budget: name, period, key: ofKey });
  const add = (count: CountName, of: Bounds["own"]): BoundedAdd => ({
    ...{ count, by: amount, marks: marksOf(of), bounds: of },
  });
  const { own, ofKey } = bounds;
  return [add(countOf(null), own), ...(ofKey === null ? [] : [add(countOf(key), ofKey)])];
}
