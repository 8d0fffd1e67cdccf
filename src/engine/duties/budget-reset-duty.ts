/**
 * Budgets (engine/budgets/): compares the counts of the present period with the gates, which a lost write may have left
 * closed or open; gives back what dead attempts had reserved; prunes the counts of old periods. A new period needs no
 * write. Only the leader does it, to save work: every step is guarded, and a crash in the middle leaves it to the next
 * pass.
 */
import { decideBreach } from "../../model/budgets/breach.ts";
import { boundsOfKey, budgetOf } from "../../model/budgets/budget.ts";
import type { BudgetSettings } from "../../model/budgets/budget.ts";
import { periodAt } from "../../model/budgets/period.ts";
import { budgetGateKey, gateName } from "../../model/limits/gate.ts";
import { keyOfGate } from "../../model/routing/lane.ts";
import type { Gate } from "../../store/records.ts";
import { actOnCount } from "../budgets/act-on-counts.ts";
import type { ActNeeds } from "../budgets/act-on-counts.ts";
import { countKind, docsOf, gateOfBudget, holdKind, readCountId } from "../budgets/budget-docs.ts";
import type { HoldBody } from "../budgets/budgets.ts";
import { foundGate } from "../budgets/change-budget.ts";
import { holdQueues } from "../budgets/hold-queues.ts";
import { answersWithin } from "../calls/settles-within.ts";
import { allDocs } from "../docs/all-docs.ts";
import { allGates } from "../limits/change-gate.ts";
import type { Needs } from "../services.ts";
import { addPasses, idlePass } from "./duty.ts";
import type { Duty, DutyPass } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";
import { passedOver } from "./passed-over.ts";
import { itemMaxMs, Quarantine } from "./quarantine.ts";

type BudgetResetNeeds = ActNeeds & Needs<"platform" | "budgets" | "reads" | "leadership">;

const name = "budget-reset";
const pageMax = 500;

export function budgetResetDuty(needs: BudgetResetNeeds, tuning: Tuning): Duty {
  const quarantine = new Quarantine(needs.platform);
  return {
    name,
    wakes: "sleep",
    sleepMaxMs: tuning.sleepMaxMs,
    quarantine,
    async pass(isAsked = false) {
      if (!isAsked && !needs.leadership.isLeader) return idlePass;
      const over = passedOver(needs);
      // An amount in a failing partition would be taken for 0.
      if (over.errors > 0) return { ...idlePass, ...over };
      let total = idlePass;
      for await (const { gate, now } of allGates(needs.store, budgetGateKey(""))) {
        const budget = gateName(gate.key);
        const settings = budgetOf(foundGate(gate, now).body);
        if (settings === null || quarantine.has(budget)) continue;
        try {
          const look = lookAfter(needs, { budget, settings, gate, now }, tuning.batchMax);
          const pass = await answersWithin(needs.platform, look, itemMaxMs);
          quarantine.succeeded(budget);
          total = { ...addPasses(total, pass), hasMore: total.hasMore || pass.hasMore };
        } catch (error) {
          quarantine.failed(budget, error);
          needs.log.error(`duty ${name}: a budget could not be looked after`, { budget, error });
          total = { ...total, errors: total.errors + 1 };
        }
      }
      return total;
    },
  };
}

interface FoundBudget {
  readonly budget: string;
  readonly settings: BudgetSettings;
  readonly gate: Gate;
  readonly now: number;
}

async function lookAfter(needs: BudgetResetNeeds, found: FoundBudget, max: number): Promise<DutyPass> {
  const released = await releaseHolds(needs, found.budget, max);
  const { counts, old } = await readCounts(needs, found, max);
  const put = await agreeGates(needs, found, counts);
  if (old.length > 0)
    await needs.store.putDocs(old.map((id) => ({ kind: countKind, id, body: null, guard: "any" })));
  return {
    processed: released + put + old.length,
    errors: 0,
    outcomes: { released, put, pruned: old.length },
    hasMore: released >= max || old.length >= max,
  };
}

/** Gives back what attempts have reserved whose lease is gone. */
async function releaseHolds(needs: BudgetResetNeeds, budget: string, max: number): Promise<number> {
  const holds: { readonly id: string; readonly body: HoldBody }[] = [];
  for await (const { id, body } of allDocs(needs.store, { kind: holdKind, prefix: docsOf(budget) })) {
    const read = JSON.parse(body) as HoldBody;
    if (read.end === undefined) holds.push({ id, body: read });
  }
  let released = 0;
  for (const hold of holds) {
    if (released >= max) break;
    const { id, seq, fence } = hold.body.lease;
    const job = await needs.reads.add(id);
    if (job?.state === "running" && job.seq === seq && job.fence === fence) continue;
    await needs.budgets.release(hold);
    released += 1;
  }
  return released;
}

/** The counts of the present period by key, and the ids of those that are too old to be kept. */
async function readCounts(
  needs: BudgetResetNeeds,
  { budget, settings, now }: FoundBudget,
  max: number,
): Promise<{ readonly counts: ReadonlyMap<string | null, number>; readonly old: readonly string[] }> {
  const present = periodAt(settings.reset, now).id;
  const counts = new Map<string | null, number>();
  const idsOf = new Map<string, string[]>();
  for await (const { id, body } of allDocs(needs.store, { kind: countKind, prefix: docsOf(budget) })) {
    const count = readCountId(id);
    if (count === null) continue;
    idsOf.set(count.period, [...(idsOf.get(count.period) ?? []), id]);
    if (count.period === present) counts.set(count.key, Number(body));
  }
  const kept = [...idsOf.keys()].slice(-settings.keep);
  const old = [...idsOf].flatMap(([period, ids]) => (kept.includes(period) ? [] : ids));
  return { counts, old: old.slice(0, max) };
}

/** @returns how many gates were not as their counts say. */
async function agreeGates(
  needs: BudgetResetNeeds,
  { budget, settings, gate, now }: FoundBudget,
  counts: ReadonlyMap<string | null, number>,
): Promise<number> {
  const period = periodAt(settings.reset, now);
  const gates = new Map<string | null, Gate>([[null, gate]]);
  for (let after: string | null = null; ;) {
    const page: Awaited<ReturnType<typeof needs.store.readGates>> = await needs.store.readGates({
      ...{ prefix: gateOfBudget(budget, ""), after, max: pageMax },
    });
    for (const each of page.gates) gates.set(keyOfGate(each.key), each);
    after = page.cursor;
    if (after === null) break;
  }
  let put = 0;
  for (const key of new Set([...gates.keys(), ...counts.keys()])) {
    const own = gates.get(key) ?? null;
    const { body } = foundGate(own, now);
    const count = counts.get(key) ?? 0;
    const breach = decideBreach({
      bounds: key === null ? settings : boundsOfKey(settings, body),
      ...{ onBreach: settings.onBreach, count, period, acted: body.acted },
      ...{ closedUntil: own?.closedUntil ?? null, now },
    });
    if (breach === null && body.acted?.ending !== true) continue;
    await actOnCount(needs, { budget, period: period.id, key });
    put += 1;
  }
  if (settings.queues.length > 0) {
    const [own] = (await needs.store.readGates({ keys: [gate.key] })).gates;
    const closedUntil = own?.closedUntil ?? null;
    await holdQueues(
      needs,
      settings.queues,
      budget,
      closedUntil !== null && closedUntil > now ? closedUntil : null,
    );
  }
  return put;
}
