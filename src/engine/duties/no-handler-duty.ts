/**
 * No handler: a name without a handler is not an error at once, because a new version may be on its way. A ready job
 * fails if live workers serve its queue, but for the whole grace none of them had a handler for its name and offered
 * what it requires. A queue without any worker only waits: its workers may be down. If a partition of the store fails,
 * nothing is decided, because the registration of an able worker may lie there.
 */
import { afterNoHandler } from "../../model/job/after-run.ts";
import { routeNumber } from "../../model/routing/route.ts";
import type { Change } from "../../store/operations.ts";
import type { StateCount } from "../../store/records.ts";
import { withoutGates } from "../../store/state-counts.ts";
import type { Needs } from "../services.ts";
import { endCase } from "../durable/end-case.ts";
import { answersWithin } from "../calls/settles-within.ts";
import { readWorkers, servingWorkers } from "../fleet/registration.ts";
import { applyChanges } from "./apply-changes.ts";
import type { Duty, DutyPass } from "./duty.ts";
import { addPasses, idlePass } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";
import { noteEnd } from "../attempts/note-end.ts";
import type { NoteEndNeeds } from "../attempts/note-end.ts";
import { passedOver } from "./passed-over.ts";
import { itemMaxMs, Quarantine } from "./quarantine.ts";
import { SkippedPasses } from "./skipped-passes.ts";
import { noteUnserved } from "./unserved-routes.ts";

const scanMax = 10_000;
const name = "no-handler";

/** A route that no worker serves. As a filter it matches exactly the jobs of this route. */
type Orphans = Required<Pick<StateCount, "queue" | "name" | "requires">>;

export function noHandlerDuty(
  needs: Needs<
    "platform" | "log" | "store" | "ids" | "policies" | "noHandlerGraceMs" | "changes" | "strideMs"
  > &
    NoteEndNeeds,
  tuning: Tuning,
): Duty {
  const { noHandlerGraceMs } = needs;
  const quarantine = new Quarantine(needs.platform);
  const skipping = new SkippedPasses(noHandlerGraceMs ?? 0, tuning.sleepMaxMs);
  // Where the last pass stopped, per route, so that jobs that cannot be changed do not block later ones.
  const cursors = new Map<string, string>();

  async function failOrphans(route: Orphans, item: string, before: number): Promise<DutyPass> {
    const page = await needs.store.findJobs({
      filter: { states: ["ready"], ...route, createdBefore: before },
      max: tuning.batchMax,
      scanMax,
      cursor: cursors.get(item) ?? null,
    });
    if (page.cursor === null) cursors.delete(item);
    else cursors.set(item, page.cursor);
    const late = page.jobs.filter(({ id, dueAt }) => dueAt <= before && !quarantine.has(id));
    const changes = late.map((job): Change => {
      const policy = needs.policies.read(job.policy, job.queue);
      const decided = {
        guard: { states: ["ready"], rev: job.rev },
        next: afterNoHandler(policy),
      } as const;
      return { id: job.id, cases: [endCase({ policy, durable: job.durable }, needs.strideMs, decided)] };
    });
    const { applied, appliedIn, errors, outcomes } = await applyChanges(needs, changes, {
      name,
      quarantine,
      applied: (id) => {
        const at = changes.findIndex((change) => change.id === id);
        const [job, next] = [late[at], changes[at]?.cases[0]?.next];
        if (job === undefined || next === undefined) return;
        noteEnd(needs, job, next);
      },
    });
    if (applied > 0)
      needs.log.error("jobs failed: no worker of their queue has a handler and what they require", {
        ...route,
        failed: applied,
      });
    const inPartitions = appliedIn === undefined ? {} : { processedIn: appliedIn };
    return { processed: applied, ...inPartitions, errors, outcomes, hasMore: page.cursor !== null };
  }

  return {
    name,
    wakes: "sleep",
    sleepMaxMs: tuning.sleepMaxMs,
    quarantine,
    async pass(isAsked = false) {
      if (noHandlerGraceMs === null || (skipping.isOn() && !isAsked)) return idlePass;
      const over = passedOver(needs);
      if (over.errors > 0) return { ...idlePass, ...over };
      let total = idlePass;
      const { routes, before } = await longOrphans(needs, noHandlerGraceMs);
      for (const route of routes) {
        const item = [route.queue, route.name, ...route.requires]
          .map((part) => JSON.stringify(part))
          .join(" ");
        if (quarantine.has(item)) continue;
        try {
          const pass = await answersWithin(needs.platform, failOrphans(route, item, before), itemMaxMs);
          quarantine.succeeded(item);
          total = { ...addPasses(total, pass), hasMore: total.hasMore || pass.hasMore };
        } catch (error) {
          quarantine.failed(item, error);
          needs.log.error(`duty ${name}: a queue could not be checked`, { ...route, error });
          total = { ...total, errors: total.errors + 1 };
        }
      }
      if (!total.hasMore && total.errors === 0) skipping.begin();
      return total;
    },
  };
}

/** The routes that no worker served during the whole grace, and when the grace began. */
async function longOrphans(
  needs: Needs<"store">,
  graceMs: number,
): Promise<{ readonly routes: readonly Orphans[]; readonly before: number }> {
  const orphans = await orphanRoutes(needs);
  if (orphans === null) return { routes: [], before: 0 };
  const { now } = await needs.store.describe();
  const before = now - graceMs;
  const numbers = orphans.map(({ queue, name: jobName, requires }) => routeNumber(queue, jobName, requires));
  const since = await noteUnserved(needs.store, numbers, now);
  return { routes: orphans.filter((_, at) => (since.get(numbers[at] as number) ?? now) <= before), before };
}

/** Routes with ready jobs whose queue has live workers, of which none would run them; null if no job is ready. */
async function orphanRoutes(needs: Needs<"store">): Promise<readonly Orphans[] | null> {
  const counts = withoutGates(await needs.store.countJobs());
  const waiting = counts.filter(({ state, count }) => state === "ready" && count > 0);
  if (waiting.length === 0) return null;
  const workers = await readWorkers(needs.store);
  return waiting
    .filter((route) => {
      const serving = workers.filter(({ queues }) => queues.includes(route.queue));
      return serving.length > 0 && servingWorkers(serving, route).length === 0;
    })
    .map(({ queue, name: jobName, requires = [] }) => ({ queue, name: jobName, requires }));
}
