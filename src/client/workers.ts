/**
 * The workers of all processes of the store, as the registry has them, and orders to them from outside:
 *
 *   quiet    it claims nothing more and finishes what runs; its shares of totals go to others
 *   resume   it claims again
 *   stop     as its own stop(): no new jobs, running ones get their grace, what is left goes back
 *
 * An order is written down and heard with the worker's next beat, within about two seconds; `list` shows the mode that
 * each worker says it is in.
 */
import type { Engine } from "../engine/engine.ts";
import { orderPut } from "../engine/worker-bell.ts";
import type { WorkerOrder } from "../engine/worker-bell.ts";
import { readNotices } from "../engine/worker-notice.ts";
import type { LiveWorker, WorkerMode } from "../engine/worker-notice.ts";
import { durationMs } from "../model/duration.ts";
import type { Duration } from "../model/duration.ts";
import { MillraceError } from "../model/error.ts";
import { checkName } from "../model/name.ts";
import { checkOptions } from "../model/option.ts";

export interface WorkerJob {
  readonly id: string;
  readonly queue: string;
  readonly name: string;
  readonly attempt: number;
  /** Since when its handler runs, by the store's clock. */
  readonly since: Date;
}

export interface WorkerView {
  /** As jobs and attempts name it. */
  readonly id: string;
  readonly label: string;
  readonly host: string;
  readonly processId: number;
  readonly mode: WorkerMode;
  readonly queues: readonly string[];
  /** The names of the jobs that it has handlers for. */
  readonly names: readonly string[];
  readonly capabilities: readonly string[];
  /** Slots by queue, as they are now: for a queue with a total its share of it. */
  readonly slots: Readonly<Record<string, number>>;
  /** The totals that it takes part in. */
  readonly totals: Readonly<Record<string, number>>;
  /** Jobs whose handlers run. */
  readonly running: number;
  /** The first twenty of them. */
  readonly jobs: readonly WorkerJob[];
  /** Handlers that were told to stop and go on. */
  readonly abandoned: number;
  /** Of its whole process. */
  readonly memoryBytes: number;
  /** By how much the event loop of its process was late at worst, of late. */
  readonly loopDelayMs: number;
  readonly startedAt: Date;
  /** When it was heard of last. Times of a view are by the store's clock. */
  readonly seenAt: Date;
}

export class Workers {
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Those that are alive now, by label. */
  async list(): Promise<readonly WorkerView[]> {
    const workers = await readNotices(this.#engine.store, true);
    return workers.map(viewOf).toSorted((one, other) => (orderOf(one) < orderOf(other) ? -1 : 1));
  }

  /** @param worker the id of one, or the label of some. @returns those that were told, as they were before. */
  quiet(worker: string): Promise<readonly WorkerView[]> {
    return this.#tell("quiet", worker, { to: "quiet" });
  }

  resume(worker: string): Promise<readonly WorkerView[]> {
    return this.#tell("resume", worker, { to: "resume" });
  }

  async stop(worker: string, options: { grace?: Duration } = {}): Promise<readonly WorkerView[]> {
    const { grace } = checkOptions(options, "workers.stop", ["grace"]);
    const graceMs = grace === undefined ? null : durationMs(grace, "workers.stop: grace");
    return this.#tell("stop", worker, { to: "stop", graceMs });
  }

  async #tell(what: string, worker: string, order: WorkerOrder): Promise<readonly WorkerView[]> {
    checkName(worker, `workers.${what}: worker`);
    const meant = (await this.list()).filter(({ id, label }) => id === worker || label === worker);
    if (meant.length === 0)
      throw new MillraceError("worker-not-found", `There is no live worker ${JSON.stringify(worker)}.`);
    await this.#engine.store.putDocs(meant.map(({ id }) => orderPut(id, order)));
    return meant;
  }
}

function orderOf({ label, id }: WorkerView): string {
  return `${label}\0${id}`;
}

/** Instants that the worker gave by its own clock are moved to the store's. */
function viewOf(live: LiveWorker): WorkerView {
  const { worker, jobs, startedAt, writtenAt, clockAheadMs, ...rest } = live;
  const seenMs = writtenAt - clockAheadMs;
  return {
    id: worker,
    ...{ label: rest.label, host: rest.host, processId: rest.processId, mode: rest.mode },
    ...{ queues: rest.queues, names: rest.names, capabilities: rest.capabilities },
    ...{ slots: rest.slots, totals: rest.totals, running: rest.running },
    jobs: jobs.map(({ runningMs, ...job }) => ({ ...job, since: new Date(seenMs - runningMs) })),
    ...{ abandoned: rest.abandoned, memoryBytes: rest.memoryBytes, loopDelayMs: rest.loopDelayMs },
    startedAt: new Date(startedAt - clockAheadMs),
    seenAt: new Date(seenMs),
  };
}
