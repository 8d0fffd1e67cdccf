/**
 * The limits and budgets that this process uses, and whether the store knows them: before the first job with a limit is
 * submitted, and before a worker that serves such jobs begins, the store's gate gets what the code says. Once per
 * process and limit; a job pays nothing for it. What an operator edited stays, unless the code's own definition
 * changed.
 *
 * Always true: one name has one definition in a process.
 */
import { BoundedMap } from "../../model/bounded-map.ts";
import { MillraceError } from "../../model/error.ts";
import { afterBudgetDefinition, isSameBudget } from "../../model/budgets/budget.ts";
import { budgetGateKey, isBudgetGate, limitGateKey } from "../../model/limits/gate.ts";
import { gateOfLimit, keyedGate, readKeyUse } from "../../model/routing/lane.ts";
import {
  afterDefinition,
  isBoundedInAll,
  isSame,
  settingsOf,
  withThrottleLearned,
  withUseLearned,
} from "../../model/limits/limit.ts";
import { invalidOption } from "../../model/option.ts";
import { afterThrottle } from "../../model/limits/throttle.ts";
import type { Platform } from "../../platform/platform.ts";
import type { Gate, NewJob } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import type { Logger } from "../log/logger.ts";
import { Listeners } from "../listeners.ts";
import type { AnyBudgetUse, Budget } from "../budgets/budget-definition.ts";
import { changeBudgetGate } from "../budgets/change-budget.ts";
import { changeGate, readGate } from "./change-gate.ts";
import type { ChangedGate, FoundGate, GateChange } from "./change-gate.ts";
import type { AnyLimitUse, Limit } from "./limit-definition.ts";

/** What names the limits of a job: the gates of its route, and those of its keys. */
type LimitedJob = Pick<NewJob, "gates" | "laneGates">;

/** So often it is asked whether a limit learns that the code of this process does not define. */
const otherLookMs = 10_000;
/** A limit that could rise but was not in full use is looked at so much more often. */
const looksPerRise = 4;
const looksMax = 10_000;

/** What a throttle has left. */
interface Throttling {
  /** For how long nothing passes. */
  readonly closedMs: number;
  readonly own: Gate;
  /** Null for a throttle of the whole limit. */
  readonly ofKey: Gate | null;
  readonly now: number;
}

interface Known {
  /** How an error names it. */
  readonly title: string;
  readonly definition: Limit | Budget;
  readonly make: () => Promise<unknown>;
  isMade: boolean;
  making: Promise<void> | null;
}

const none: readonly (readonly [key: string, known: Known])[] = [];

export class LimitsInUse {
  readonly #store: Pick<Store, "readGates" | "putGates" | "partitions">;
  readonly #log: Logger;
  /** By gate. */
  readonly #known = new Map<string, Known>();
  readonly #throttling = new Map<string, Promise<Throttling>>();
  /** The key of each gate that a throttle of this process has closed. */
  readonly gateClosed = new Listeners<string>();
  /** Monotonic, by limit: when its use is looked at again. */
  readonly #nextLookUs = new BoundedMap<string, number>(looksMax);
  #unmade = 0;

  constructor(store: Pick<Store, "readGates" | "putGates" | "partitions">, log: Logger) {
    this.#store = store;
    this.#log = log;
  }

  /** Enters limits that jobs are about to use. A second definition of a name is refused. */
  enter(uses: readonly Pick<AnyLimitUse, "limit">[]): void {
    for (const { limit } of uses) {
      const known = this.#known.get(limitGateKey(limit.name));
      if (known === undefined) {
        const make = (): Promise<unknown> => this.#makeLimit(limit);
        this.#add(limitGateKey(limit.name), `limit ${JSON.stringify(limit.name)}`, limit, make);
      } else if (!isSame((known.definition as Limit).settings, limit.settings))
        throw conflict("limit-conflict", known);
    }
  }

  /** The same for budgets. */
  enterBudgets(uses: readonly Pick<AnyBudgetUse, "budget">[]): void {
    for (const { budget } of uses) {
      const known = this.#known.get(budgetGateKey(budget.name));
      if (known === undefined) {
        const make = (): Promise<void> => this.#makeBudget(budget);
        this.#add(budgetGateKey(budget.name), `budget ${JSON.stringify(budget.name)}`, budget, make);
      } else if (!isSameBudget((known.definition as Budget).budget, budget.budget))
        throw conflict("budget-conflict", known);
    }
  }

  #add(key: string, title: string, definition: Limit | Budget, make: () => Promise<unknown>): void {
    this.#known.set(key, { title, definition, make, isMade: false, making: null });
    this.#unmade += 1;
  }

  /** Null once the store knows every limit of these jobs, which is so from the second job of a kind on. */
  whenMade(jobs: readonly LimitedJob[]): Promise<void> | null {
    return this.#makeAll(this.#unmadeOf(jobs));
  }

  #makeAll(unmade: typeof none): Promise<void> | null {
    return unmade.length === 0
      ? null
      : Promise.all(unmade.map(([, known]) => this.#made(known))).then(() => {});
  }

  /**
   * For jobs that are written inside the caller's own transaction: their limits must be there, because making one here
   * would wait for that transaction, and the transaction for this call.
   */
  async mustBeThere(jobs: readonly LimitedJob[]): Promise<void> {
    const unmade = this.#unmadeOf(jobs);
    if (unmade.length === 0) return;
    const { gates } = await this.#store.readGates({ keys: unmade.map(([key]) => key) });
    for (const [key, { definition }] of unmade)
      if (!gates.some((gate) => gate.key === key)) {
        const advice = (call: string): string =>
          `Inside a transaction it cannot be made: call ${call} before.`;
        throw isBudgetGate(key)
          ? unknownBudget(definition.name, advice("budgets.define(budget)"))
          : unknownLimit(definition.name, advice("limits.define(limit)"));
      }
  }

  /** As `define`, for one limit, also if this process has made it before. @returns its gate as it stands then. */
  async defined(limit: Limit): Promise<FoundGate & { readonly gate: Gate }> {
    this.enter([{ limit }]);
    const known = this.#known.get(limitGateKey(limit.name));
    const { found, after } = await this.#makeLimit(limit);
    if (known?.isMade === false) this.#isMade(known);
    if (after === null) throw unknownLimit(limit.name);
    return { ...found, gate: after };
  }

  #isMade(known: Known): void {
    if (known.isMade) return;
    known.isMade = true;
    this.#unmade -= 1;
  }

  #unmadeOf(jobs: readonly LimitedJob[]): typeof none {
    if (this.#unmade === 0) return none;
    const keys = jobs.flatMap(({ gates = [], laneGates }) => [
      ...gates.map(({ key }) => key),
      ...(laneGates ?? []).map((use) => gateOfLimit(readKeyUse(use).key)),
    ]);
    return this.#unmadeAmong(keys);
  }

  #unmadeAmong(keys: readonly string[]): typeof none {
    return [...new Set(keys)].flatMap((key) => {
      const known = this.#known.get(key);
      return known === undefined || known.isMade ? [] : [[key, known] as const];
    });
  }

  /** Makes sure that the store has what the code says of these limits; null where this process knows that it does. */
  define(uses: readonly Pick<AnyLimitUse, "limit">[]): Promise<void> | null {
    this.enter(uses);
    return this.#makeAll(this.#unmadeAmong(uses.map(({ limit }) => limitGateKey(limit.name))));
  }

  /** The same for budgets. */
  defineBudgets(uses: readonly Pick<AnyBudgetUse, "budget">[]): Promise<void> | null {
    this.enterBudgets(uses);
    return this.#makeAll(this.#unmadeAmong(uses.map(({ budget }) => budgetGateKey(budget.name))));
  }

  /**
   * Lets a limit, or one key of it, cool down, for as long as upstream said or as the model says, and takes its tokens.
   * @returns for how long nothing passes. The same throttle asked for at the same time is one.
   */
  async throttle(name: string, key: string | null, saidMs: number | null): Promise<number> {
    return (await this.throttleGate(name, key, saidMs)).closedMs;
  }

  /** As `throttle`. @returns the gate too, as it stands then. */
  throttleGate(name: string, key: string | null, saidMs: number | null): Promise<Throttling> {
    const scope = key === null ? limitGateKey(name) : keyedGate(limitGateKey(name), key);
    const asked = `${saidMs} ${scope}`;
    const joined = this.#throttling.get(asked);
    if (joined !== undefined) return joined;
    const call = this.#throttle(name, scope, saidMs).finally(() => this.#throttling.delete(asked));
    this.#throttling.set(asked, call);
    return call;
  }

  async #throttle(name: string, scope: string, saidMs: number | null): Promise<Throttling> {
    const isKey = scope !== limitGateKey(name);
    const limit = isKey ? await this.mustKnow(name) : null;
    const { found, change, after } = await changeGate(this.#store, scope, ({ gate, body, now }) => {
      if (gate === null && !isKey) throw unknownLimit(name);
      if (!isKey && body.defined !== null && !isBoundedInAll(body.defined)) throw needsKey(name);
      const { throttle: remembered } = body;
      const closedUntil = gate?.closedUntil ?? null;
      const after = afterThrottle({ throttle: remembered, closedUntil }, saidMs, now);
      if (after === null) return null;
      const { throttle, closedMs } = after;
      const isNew = closedUntil === null || closedUntil <= now;
      const next = isNew ? withThrottleLearned(body, now + closedMs) : body;
      return { body: { ...next, throttle }, closed: { inMs: closedMs }, emptiesRate: true };
    });
    this.gateClosed.emit(scope);
    const closedMs = change?.closed.inMs ?? (found.gate?.closedUntil ?? found.now) - found.now;
    const own = limit ?? after;
    if (own === null) throw unknownLimit(name);
    return { closedMs, own, ofKey: isKey ? after : null, now: found.now };
  }

  /**
   * A job or a permit with these limits is about to end: one that learns may rise by it. No timer is needed for that,
   * and it costs a process a read or a few in the time after which a limit rises at the earliest.
   */
  ending(
    uses: readonly (readonly [name: string, ...weight: unknown[]])[],
    platform: Pick<Platform, "monotonicUs">,
  ): void {
    for (const [name] of uses) {
      const known = this.#known.get(limitGateKey(name));
      if (known !== undefined && (known.definition as Limit).settings.learn === undefined) continue;
      const nowUs = platform.monotonicUs();
      if (nowUs < (this.#nextLookUs.get(name) ?? 0)) continue;
      // Nobody else looks meanwhile. What cannot be learned now is learned another time.
      this.#nextLookUs.set(name, nowUs + otherLookMs * 1000);
      this.#learnByUse(name).then(
        (inMs) => this.#nextLookUs.set(name, nowUs + inMs * 1000),
        () => undefined,
      );
    }
  }

  /** @returns after how long to look again. */
  async #learnByUse(name: string): Promise<number> {
    const { found, change } = await changeGate(this.#store, limitGateKey(name), ({ gate, body, now }) => {
      const next = gate === null ? null : withUseLearned(body, gate.held, now);
      return next === null ? null : { body: next };
    });
    const body = change?.body ?? found.body;
    const { learn } = settingsOf(body);
    if (learn === undefined) return otherLookMs;
    const restMs = (body.learned?.since ?? found.now) + learn.everyMs - found.now;
    return Math.max(restMs, learn.everyMs / looksPerRise);
  }

  /** Keys belong to limits that the store knows. @returns the limit's own gate. */
  async mustKnow(name: string): Promise<Gate> {
    const { gate } = await readGate(this.#store, limitGateKey(name));
    if (gate === null) throw unknownLimit(name);
    return gate;
  }

  /** A making that failed is begun again by the next job that needs it. */
  #made(known: Known): Promise<void> {
    known.making ??= known.make().then(
      () => this.#isMade(known),
      (error: unknown) => {
        known.making = null;
        throw error;
      },
    );
    return known.making;
  }

  #makeLimit({ name, settings }: Limit): Promise<ChangedGate<GateChange>> {
    const { partitions = 1 } = this.#store;
    if (partitions > 1 && isBoundedInAll(settings))
      this.#log.warn("all jobs of a limit lie in one partition; a limit that bounds keys only spreads them", {
        limit: name,
        partitions,
      });
    return changeGate(this.#store, limitGateKey(name), ({ body }) => {
      const next = afterDefinition(body, settings);
      return next === null ? null : { body: next };
    });
  }

  async #makeBudget({ name, budget }: Budget): Promise<void> {
    await changeBudgetGate(this.#store, budgetGateKey(name), ({ body }) => {
      const next = afterBudgetDefinition(body, budget);
      return next === null ? null : { body: next };
    });
  }
}

function conflict(code: "limit-conflict" | "budget-conflict", { title }: Known): MillraceError {
  return new MillraceError(
    code,
    `The ${title} has two definitions in this process; define it once and import it.`,
  );
}

/** Jobs of such a limit pass the gates of their keys only: whatever is done to the limit itself would hold nobody. */
export function needsKey(name: string): MillraceError {
  return invalidOption(
    `The limit ${JSON.stringify(name)} bounds keys only, so its jobs pass no gate in common. Name a key, or give the limit a concurrency or a rate in its definition.`,
  );
}

export function unknownBudget(
  name: string,
  advice = "It is made by the first enqueue, worker or report that uses its definition.",
): MillraceError {
  return new MillraceError("unknown-budget", `The store knows no budget ${JSON.stringify(name)}. ${advice}`);
}

export function unknownLimit(
  name: string,
  advice = "It is made by the first enqueue or worker that uses it.",
): MillraceError {
  return new MillraceError("unknown-limit", `The store knows no limit ${JSON.stringify(name)}. ${advice}`);
}
