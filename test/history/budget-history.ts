/**
 * Random histories of one budget: two processes report, reserve, settle, release, refund and edit it, over a store that
 * loses replies and calls. After each group of acts the due work is done, and what must hold is checked: the count
 * equals what was acknowledged, no reservation went above the bound, the gate agrees with the count, and each crossing
 * acted once (invariant 65).
 */
import { Millrace } from "../../src/client/millrace.ts";
import { readMillraceOptions } from "../../src/client/millrace-options.ts";
import { BudgetSpent } from "../../src/engine/budgets/budgets.ts";
import type { PutHold } from "../../src/engine/budgets/budgets.ts";
import { budget } from "../../src/engine/budgets/budget-definition.ts";
import { createServices } from "../../src/engine/services.ts";
import type { Services } from "../../src/engine/services.ts";
import { MillraceError } from "../../src/model/error.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";

export interface BudgetFinding {
  readonly what: string;
  readonly found: unknown;
  readonly expected: unknown;
}

/** A fault of the code that a check must find. */
export type PlantedBug = "repeats adds" | "ignores ceilings" | "acts twice";

const hard = 100;
const groups = 5;
const actsPerGroup = 6;
const keys = [null, "acme", "bob"] as const;
const faultShare = 0.15;

/** Loses calls and replies of writes; `bug` plants a fault of the store's side. */
function faulty(store: Store, random: () => number, bug: PlantedBug | null): Store {
  const lose =
    (call: (units: never) => Promise<unknown>) =>
    async (units: never): Promise<unknown> => {
      const drawn = random();
      if (drawn < faultShare) throw new MillraceError("store-unavailable", "The call was lost.");
      const answer = await call(withBug(units, bug));
      if (drawn > 1 - faultShare) throw new MillraceError("outcome-unknown", "The reply was lost.");
      return answer;
    };
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      const bound = value.bind(target) as (units: never) => Promise<unknown>;
      return name === "submit" ? lose(bound) : bound;
    },
  });
}

/** The units as a store with the fault would take them. */
function withBug(units: never, bug: PlantedBug | null): never {
  if (bug === null || bug === "acts twice") return units;
  const read = units as readonly { readonly docs?: readonly Record<string, unknown>[] }[];
  return read.map((unit) => ({
    ...unit,
    docs: (unit.docs ?? []).flatMap((doc) => {
      if (bug === "repeats adds" && doc["kind"] === "budget-ledger") return [];
      const { add } = doc as { readonly add?: object };
      return [
        bug === "ignores ceilings" && add !== undefined ? { ...doc, add: { ...add, ceiling: null } } : doc,
      ];
    }),
  })) as never;
}

interface Process {
  readonly services: Services;
  readonly mill: Millrace;
}

function startProcess(store: Store): Process {
  const { settings, log, duties } = readMillraceOptions(nodePlatform, { log: false });
  const services = createServices(store, nodePlatform, settings, log);
  return { services, mill: new Millrace(services, duties) };
}

/** @returns what does not hold; null for a history in which all does. */
export async function runBudgetHistory(
  store: Store,
  name: string,
  random: () => number,
  bug: PlantedBug | null = null,
): Promise<BudgetFinding | null> {
  const tokens = budget(name, { hard, perKey: { hard: 60 }, reset: { every: "3650d" } });
  const [calm, ...both] = [store, ...[0, 1].map(() => faulty(store, random, bug))].map(startProcess) as [
    Process,
    ...Process[],
  ];
  await calm.mill.budgets.define(tokens);
  const below = (max: number): number => Math.floor(random() * max);
  const counted = new Map<string | null, number>(keys.map((key) => [key, 0]));
  const bounds = { all: hard };
  let held: PutHold[] = [];
  let reports = 0;
  let breaches = 0;
  let wasSpent = false;
  const count = (key: string | null, amount: number): void => {
    counted.set(null, (counted.get(null) ?? 0) + amount);
    if (key !== null) counted.set(key, (counted.get(key) ?? 0) + amount);
  };
  // Periods are years long, so the time of the begin does for all acts.
  const { now: at } = await store.describe();

  async function act(): Promise<void> {
    const { budgets } = (both[below(both.length)] as Process).services;
    const key = keys[below(keys.length)] ?? null;
    const kind = below(10);
    if (kind < 3) {
      const amount = 1 + below(20);
      reports += 1;
      await budgets.report({ budget: tokens, key, amount, at });
      count(key, amount);
    } else if (kind < 7) {
      const amount = 1 + below(50);
      const lease = { id: `gone-${name}`, seq: 1, fence: 1 };
      try {
        held.push(await budgets.reserve({ budget: tokens, key, amount, at, lease }));
        count(key, amount);
      } catch (error) {
        if (!(error instanceof BudgetSpent)) throw error;
      }
    } else {
      const [hold] = held.splice(below(held.length), 1);
      if (hold === undefined) return;
      const { amount, key: ofHold } = hold.body;
      const actual = kind < 9 ? below(amount + 1) : 0;
      await (kind < 9 ? budgets.settle(hold, actual) : budgets.release(hold));
      count(ofHold, actual - amount);
    }
  }

  async function check(): Promise<BudgetFinding | null> {
    await calm.mill.duties.run("due-documents");
    const state = await calm.mill.budgets.get(name);
    const total = counted.get(null) ?? 0;
    if (state.spent !== total) return { what: "the count", found: state.spent, expected: total };
    for (const key of keys) {
      if (key === null) continue;
      const { spent } = await calm.mill.budgets.get(name, { key });
      if (spent !== counted.get(key))
        return { what: `the count of ${key}`, found: spent, expected: counted.get(key) };
    }
    if (reports === 0 && total > bounds.all)
      return { what: "reservations above the bound", found: total, expected: bounds.all };
    const isSpent = total >= bounds.all;
    if (isSpent && !wasSpent) breaches += 1;
    wasSpent = isSpent;
    // Opened by what ends a hold within a second after the breach, or else by the duty.
    await calm.mill.duties.run("budget-reset");
    held = [];
    for (const key of keys) {
      const { reserved } = await calm.mill.budgets.get(name, key === null ? {} : { key });
      if (reserved !== 0) return { what: "holds of dead attempts", found: reserved, expected: 0 };
    }
    const after = await calm.mill.budgets.get(name);
    for (const { key, spent } of after.keys) counted.set(key, spent);
    counted.set(null, after.spent);
    wasSpent = after.spent >= bounds.all;
    const isHeld = after.heldUntil !== null;
    if (isHeld !== wasSpent) return { what: "the gate", found: isHeld, expected: wasSpent };
    if (bug === "acts twice") await actTwice(store, name);
    const emitted = await countBreaches(store, name);
    return emitted === breaches ? null : { what: "breaches", found: emitted, expected: breaches };
  }

  try {
    for (let group = 0; group < groups; group++) {
      // Without a report nothing may go above the bound, so some histories begin without.
      await Promise.all(Array.from({ length: actsPerGroup }, act));
      const finding = await check();
      if (finding !== null) return finding;
    }
    return null;
  } finally {
    await Promise.all([calm, ...both].map(({ services }) => services.budgets.whenIdle()));
  }
}

/** The gate forgets what was done in the period. */
async function actTwice(store: Store, name: string): Promise<void> {
  const { gates } = await store.readGates({ keys: [`b:${name}`] });
  const [gate] = gates;
  if (gate?.body === null || gate === undefined) return;
  const body = JSON.stringify({ ...(JSON.parse(gate.body) as object), acted: null });
  await store.putGates([
    { key: gate.key, guard: "any", cap: null, rate: null, closed: null, isIntakeClosed: false, body },
  ]);
}

async function countBreaches(store: Store, name: string): Promise<number> {
  let breaches = 0;
  for (let partition = 0; partition < (store.partitions ?? 1); partition++)
    for (let after = 0; ;) {
      const { records, cursor } = await store.readFeed({
        partition,
        after,
        max: 500,
        kinds: ["budget-breached"],
      });
      for (const { events } of records)
        for (const { id, extra } of events)
          if (id === name && (JSON.parse(String(extra)) as { key: unknown }).key === null) breaches += 1;
      if (cursor === after) break;
      after = cursor;
    }
  return breaches;
}
