/**
 * What doctor says of the workers of a store, from their notices and the tallies: ready jobs that nobody works on or that
 * a pause holds back, handlers that ignore their abort and hold slots, and clocks that differ.
 */
import { countJobs } from "../client/count-jobs.ts";
import { readLiveWorkers } from "../client/live-workers.ts";
import type { LiveWorker } from "../client/live-workers.ts";
import { durationText } from "../model/duration.ts";
import type { Store } from "../store/store.ts";
import type { Finding } from "./finding.ts";

/**
 * A job that was ready for less than this is not held against anybody: workers may just be starting. It is also how
 * long the notice of a worker that died still counts.
 */
const unservedMs = 60_000;
/** More than a slow call to the store explains. */
const clockSlackMs = 5000;
const routesMax = 20;
const scanMax = 10_000;

/** @param now the store's time. */
export async function fleetFindings(store: Store, now: number): Promise<readonly Finding[]> {
  const workers = await readLiveWorkers(store);
  return [
    ...(await unservedFindings(store, workers, now)),
    ...(await pausedFindings(store)),
    ...workers.flatMap(abandonedFindings),
    ...workers.flatMap(clockFindings),
  ];
}

async function unservedFindings(
  store: Store,
  workers: readonly LiveWorker[],
  now: number,
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  const unserved = (await store.tallyJobs()).filter(
    ({ queue, name, state, count }) =>
      state === "ready" &&
      count > 0 &&
      !workers.some(({ queues, names }) => queues.includes(queue) && names.includes(name)),
  );
  for (const { queue, name, count } of unserved.slice(0, routesMax)) {
    if (!(await hasWaited(store, { queue, name }, now))) continue;
    const isServed = workers.some(({ queues }) => queues.includes(queue));
    const nobody = isServed
      ? "no worker of the queue has a handler for it"
      : "no live worker serves the queue";
    findings.push({
      check: "workers",
      problem: `${count} ready ${count === 1 ? "job" : "jobs"} ${JSON.stringify(name)} in the queue ${JSON.stringify(queue)}, for more than a minute: ${nobody}.`,
      advice: isServed
        ? "Deploy a worker with the handler, or remove the jobs with millrace purge."
        : "Start a worker for the queue (millrace work FILE --queues ...); look for a typing mistake in its name.",
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

async function pausedFindings(store: Store): Promise<readonly Finding[]> {
  const counts = Object.entries(await countJobs(store));
  return counts.flatMap(([queue, { held = 0 }]) => {
    if (held === 0) return [];
    const many = held === 1 ? "job waits" : "jobs wait";
    return [
      {
        check: "queues",
        problem: `The queue ${JSON.stringify(queue)} is paused, and ${held} ready ${many} in it.`,
        advice: "If that is not meant, let it go on with millrace queues resume QUEUE.",
      },
    ];
  });
}

/** Whether a ready job of this kind became due more than a minute ago. */
async function hasWaited(
  store: Store,
  route: { readonly queue: string; readonly name: string },
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
