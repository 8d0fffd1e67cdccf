/**
 * What doctor says of the processes of a store, from their registrations and the state counts: duties that no process
 * may do, ready jobs that nobody works on or that a pause holds back, handlers that ignore their abort and hold slots,
 * and clocks that differ.
 */
import { pausedQueues } from "../../client/jobs/count-jobs.ts";
import { heldByCapability } from "../../client/explain/held-by-capability.ts";
import { oncePerStore, readLiveProcesses, whoServes, workersOf } from "../../client/workers/live-workers.ts";
import type { LiveProcess, LiveWorker } from "../../client/workers/live-workers.ts";
import { durationText } from "../../model/duration.ts";
import { quoteNames } from "../../model/name.ts";
import { withoutHidden } from "../../model/routing/hidden-queue.ts";
import type { StateCount } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import { withoutGates } from "../../store/state-counts.ts";
import type { Finding } from "./finding.ts";

/**
 * A job that was ready for less than this is not held against anybody: workers may just be starting.
 */
const unservedMs = 60_000;
/** More than a slow call to the store explains. */
const clockSlackMs = 5000;
const routesMax = 20;
const scanMax = 10_000;

/** @param now the store's time. */
export async function fleetFindings(store: Store, now: number): Promise<readonly Finding[]> {
  const processes = await readLiveProcesses(store);
  const workers = processes.flatMap(workersOf);
  return [
    ...leaderFindings(processes),
    ...(await unservedFindings(store, workers, now)),
    ...(await pausedFindings(store)),
    ...workers.flatMap(abandonedFindings),
    ...workers.flatMap(clockFindings),
  ];
}

/** Duties that run once per store are done by a process in which none of them is switched off. */
function leaderFindings(processes: readonly LiveProcess[]): readonly Finding[] {
  if (processes.length === 0 || processes.some(({ isCandidate }) => isCandidate)) return [];
  return [
    {
      check: "duties",
      problem: `No live process may lead: each has one of the duties ${oncePerStore.join(", ")} switched off, so none of them is done.`,
      advice:
        "Start a process with all of them: millrace work FILE, or mill.duties.start() without the option duties.",
    },
  ];
}

async function unservedFindings(
  store: Store,
  workers: readonly LiveWorker[],
  now: number,
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  const unserved = withoutHidden(withoutGates(await store.countJobs())).filter(
    (figures) => figures.state === "ready" && figures.count > 0 && whoServes(workers, figures).length === 0,
  );
  for (const figures of unserved.slice(0, routesMax)) {
    const { queue, name, requires = [], count } = figures;
    if (!(await hasWaited(store, { queue, name, requires }, now))) continue;
    const requiring = requires.length === 0 ? "" : ` requiring ${quoteNames(requires)}`;
    findings.push({
      check: "workers",
      problem: `${count} ready ${count === 1 ? "job" : "jobs"} ${JSON.stringify(name)}${requiring} in the queue ${JSON.stringify(queue)}, for more than a minute: ${nobody(workers, figures)}.`,
      advice: adviceFor(workers, figures),
    });
  }
  const left = unserved.length - routesMax;
  return left <= 0
    ? findings
    : [
        ...findings,
        {
          check: "workers",
          problem: `${left} more kinds of ready jobs have no worker.`,
          advice: "See millrace counts.",
        },
      ];
}

function nobody(workers: readonly LiveWorker[], figures: StateCount): string {
  if (!workers.some(({ queues }) => queues.includes(figures.queue))) return "no live worker serves the queue";
  const held = heldByCapability(figures, workers);
  return held === null
    ? "no worker of the queue has a handler for it"
    : `no worker of the queue with a handler for it offers ${quoteNames(held.missing)}`;
}

function adviceFor(workers: readonly LiveWorker[], figures: StateCount): string {
  if (!workers.some(({ queues }) => queues.includes(figures.queue)))
    return "Start a worker for the queue (millrace work FILE --queues ...); look for a typing mistake in its name.";
  return heldByCapability(figures, workers) === null
    ? "Deploy a worker with the handler, or delete the jobs with millrace purge."
    : "Start a worker that offers them together (millrace work FILE --capabilities ...), or delete the jobs.";
}

async function pausedFindings(store: Store): Promise<readonly Finding[]> {
  const paused = await pausedQueues(store);
  if (paused.size === 0) return [];
  const waiting = new Map<string, number>();
  for (const { queue, state, count } of await store.countJobs())
    if (state === "ready" && paused.has(queue)) waiting.set(queue, (waiting.get(queue) ?? 0) + count);
  return [...waiting].map(([queue, count]) => ({
    check: "queues",
    problem: `The queue ${JSON.stringify(queue)} is paused, and ${count} ready ${count === 1 ? "job waits" : "jobs wait"} in it.`,
    advice: "If that is not meant, let it go on with millrace queues resume QUEUE.",
  }));
}

/** Whether a ready job of this kind became due more than a minute ago. */
async function hasWaited(
  store: Store,
  route: Required<Pick<StateCount, "queue" | "name" | "requires">>,
  now: number,
): Promise<boolean> {
  const { jobs } = await store.findJobs({
    filter: { ...route, states: ["ready"], createdBefore: now - unservedMs },
    max: 100,
    scanMax,
    cursor: null,
  });
  return jobs.some(({ dueAt }) => dueAt < now - unservedMs);
}

function abandonedFindings({ worker, abandoned }: LiveWorker): readonly Finding[] {
  if (abandoned === 0) return [];
  return [
    {
      check: "workers",
      problem: `The worker ${worker} has ${abandoned} ${abandoned === 1 ? "handler" : "handlers"} running that ignored the abort and ${abandoned === 1 ? "holds its slot" : "hold their slots"}.`,
      advice: "Restart the worker, and let the handlers heed context.signal.",
    },
  ];
}

function clockFindings({ worker, clockAheadMs }: LiveWorker): readonly Finding[] {
  if (Math.abs(clockAheadMs) < clockSlackMs) return [];
  const side = clockAheadMs > 0 ? "ahead of" : "behind";
  return [
    {
      check: "clock",
      problem: `The clock of the worker ${worker} is ${durationText(Math.abs(clockAheadMs))} ${side} the store's time.`,
      advice: "Set the clock of its machine (NTP): instants that its handlers compute are off by as much.",
    },
  ];
}
