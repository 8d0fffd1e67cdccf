/**
 * What follows from a count (model/budgets/breach.ts), done by whoever finds the deferred work of a mark, by an
 * operator's call, and by the duty budget-reset. All of it may be repeated: the gate remembers what was done in the
 * period, and is put under its version with the event of the crossing.
 */
import { decideBreach } from "../../model/budgets/breach.ts";
import { boundsOfKey, budgetOf } from "../../model/budgets/budget.ts";
import type { OnBreach } from "../../model/budgets/budget.ts";
import { periodAt } from "../../model/budgets/period.ts";
import { afterBreach } from "../../model/job/after-run.ts";
import { readKeyUse } from "../../model/routing/lane.ts";
import type { JobState } from "../../model/job/job-state.ts";
import { budgetGateKey } from "../../model/limits/gate.ts";
import type { Change } from "../../store/operations.ts";
import type { Doc, JobRecord } from "../../store/records.ts";
import { endCase } from "../durable/end-case.ts";
import type { Needs } from "../services.ts";
import { countId, countKind, gateOfBudget, readCountId, workKind } from "./budget-docs.ts";
import type { CountName } from "./budget-docs.ts";
import { changeBudgetGate, readBudgetGates } from "./change-budget.ts";
import { holdQueues } from "./hold-queues.ts";

export type ActNeeds = Needs<"store" | "log" | "limits" | "changes" | "policies" | "strideMs" | "ids">;

type Ends = Promise<readonly PromiseSettledResult<{ readonly outcome: string }>[]>;

/** A job whose time has not come cannot fail; it waits for the period to end once it has. */
const endedStates: Readonly<Record<"cancelled" | "failed", readonly JobState[]>> = {
  cancelled: ["ready", "scheduled"],
  failed: ["ready"],
};
const pageMax = 500;
const scanMax = 10_000;
/** As often as a count may change while its gate is put. */
const triesMax = 100;

/** The work that counts left when they passed a mark; a document goes after its work is done. */
export function actOnWork(needs: ActNeeds, docs: readonly Doc[]): Ends {
  return Promise.allSettled(
    docs.map(async ({ id, version }) => {
      const count = readCountId(id);
      const outcome = count === null ? "unreadable" : await actOnCount(needs, count);
      await needs.store.putDocs([{ kind: workKind, id, guard: { version }, body: null }]);
      return { outcome };
    }),
  );
}

/** @returns what was done: closed, opened, warned, notified, or kept if nothing was to be done. */
export async function actOnCount(needs: ActNeeds, count: CountName): Promise<string> {
  const { budget, key } = count;
  let outcome = "kept";
  for (let tries = 0; tries < triesMax; tries++) {
    const done = await actOnce(needs, count);
    if (done === null) break;
    outcome = done;
  }
  const [found] = await readBudgetGates(needs.store, [gateOfBudget(budget, key)]);
  if (found?.body.acted?.ending !== true) return outcome;
  const settings = await settingsOf(needs, budget);
  if (settings === null) return outcome;
  await endWaiting(needs, count, settings.onBreach);
  await changeBudgetGate(needs.store, gateOfBudget(budget, key), ({ body }) => {
    if (body.acted?.ending !== true) return null;
    const { ending: _ended, ...acted } = body.acted;
    return { body: { ...body, acted } };
  });
  return outcome;
}

async function settingsOf(needs: ActNeeds, budget: string): Promise<ReturnType<typeof budgetOf>> {
  const [own] = await readBudgetGates(needs.store, [gateOfBudget(budget, null)]);
  return own === undefined ? null : budgetOf(own.body);
}

/** @returns null if everything is as it should be. */
async function actOnce(needs: ActNeeds, count: CountName): Promise<string | null> {
  const { store, log } = needs;
  const { budget, key } = count;
  const settings = await settingsOf(needs, budget);
  if (settings === null) return null;
  const gateKey = gateOfBudget(budget, key);
  const { docs } = await store.readDocs({ kind: countKind, ids: [countId(count)] });
  const number = Number(docs[0]?.body ?? 0);
  const { change, found } = await changeBudgetGate(store, gateKey, ({ gate, body, now }) => {
    const period = periodAt(settings.reset, now);
    if (period.id !== count.period) return null;
    const bounds = key === null ? settings : boundsOfKey(settings, body);
    const breach = decideBreach({
      ...{ bounds, onBreach: settings.onBreach, count: number, period, now },
      ...{ acted: body.acted, closedUntil: gate?.closedUntil ?? null },
    });
    if (breach === null) return null;
    const { acted, closedUntil, emits } = breach;
    const extra = JSON.stringify({
      key,
      amount: number,
      hard: bounds.hard,
      soft: bounds.soft,
      until: period.endsAt,
    });
    return {
      body: { ...body, acted },
      closedUntil,
      ...(emits === null ? {} : { emits: { kind: emits, subject: budget, extra } }),
    };
  });
  if (change === null) return null;
  const { closedUntil = null, emits } = change;
  if (closedUntil !== null) needs.limits.gateClosed.emit(gateKey);
  if (key === null) await holdQueues(needs, settings.queues, budget, closedUntil);
  const outcome =
    emits?.kind === "budget-warned"
      ? "warned"
      : closedUntil === null
        ? emits
          ? "notified"
          : "opened"
        : "closed";
  if (emits !== undefined)
    log.warn(emits.kind === "budget-warned" ? "a budget is nearly spent" : "a budget is spent", {
      ...{ budget, key, amount: number, was: found.body.acted?.period ?? null },
    });
  return outcome;
}

/** Cancels or fails the jobs that wait with the budget, or with its key, at this moment. */
async function endWaiting(needs: ActNeeds, { budget, key }: CountName, onBreach: OnBreach): Promise<void> {
  const to = onBreach === "cancel" ? "cancelled" : onBreach === "fail" ? "failed" : null;
  if (to === null) return;
  const states = endedStates[to];
  const gate = budgetGateKey(budget);
  const counts = await needs.store.countJobs();
  const names = new Map(
    counts
      .filter(({ gates = [], state }) => states.includes(state) && gates.some((own) => own.key === gate))
      .map(({ queue, name }) => [JSON.stringify([queue, name]), { queue, name }]),
  );
  const hasIt = ({ policy, laneGates }: JobRecord): boolean =>
    needs.policies.read(policy).budgets.includes(budget) &&
    (key === null || (laneGates ?? []).some((use) => readKeyUse(use).key === gateOfBudget(budget, key)));
  for (const { queue, name } of names.values()) {
    let cursor: string | null = null;
    do {
      const page: Awaited<ReturnType<typeof needs.store.findJobs>> = await needs.store.findJobs({
        filter: { states, queue, name },
        ...{ max: pageMax, scanMax, cursor },
      });
      cursor = page.cursor;
      const changes = page.jobs.filter(hasIt).map((job): Change => {
        const policy = needs.policies.read(job.policy, job.queue);
        const decided = {
          guard: { states, rev: job.rev },
          next: afterBreach(policy, to),
        } as const;
        return { id: job.id, cases: [endCase({ policy, durable: job.durable }, needs.strideMs, decided)] };
      });
      await Promise.all(changes.map((change) => needs.changes.add(change)));
    } while (cursor !== null);
  }
}
