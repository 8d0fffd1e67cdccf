/**
 * The workers of all processes of the store, as the registry has them, and orders to them from outside:
 *
 *   quiet    it claims nothing more and finishes what runs; its shares of totals go to others
 *   resume   it claims again
 *   stop     as its own stop(): no new jobs, running ones get their grace, what is left goes back
 *
 * An order is written down and heard with the worker's next beat, within about a second; `list` shows the mode that
 * each worker says it is in.
 */
import type { Engine } from "../engine/engine.ts";
import { orderPut } from "../engine/worker-bell.ts";
import type { WorkerOrder } from "../engine/worker-bell.ts";
import { readNotices } from "../engine/worker-notice.ts";
import type { LiveWorker, WorkerNotice } from "../engine/worker-notice.ts";
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

/** What a worker's notice says, with times by the store's clock. */
export interface WorkerView extends Pick<WorkerNotice, (typeof shownFields)[number]> {
  /** As jobs and attempts name it. */
  readonly id: string;
  /** The first twenty of those that run. */
  readonly jobs: readonly WorkerJob[];
  readonly startedAt: Date;
  /** When it was heard of last. */
  readonly seenAt: Date;
}

const shownFields = [
  ...(["label", "host", "processId", "mode", "queues", "names", "capabilities"] as const),
  ...(["slots", "totals", "running", "abandoned", "memoryBytes", "loopDelayMs"] as const),
] as const satisfies readonly (keyof WorkerNotice)[];

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
  const { worker, jobs, startedAt, writtenAt, clockAheadMs } = live;
  const seenMs = writtenAt - clockAheadMs;
  const shown = Object.fromEntries(shownFields.map((field) => [field, live[field]]));
  return {
    id: worker,
    ...(shown as Pick<WorkerNotice, (typeof shownFields)[number]>),
    jobs: jobs.map(({ runningMs, ...job }) => ({ ...job, since: new Date(seenMs - runningMs) })),
    startedAt: new Date(startedAt - clockAheadMs),
    seenAt: new Date(seenMs),
  };
}
