/**
 * The workers of all processes of the store, from the registry, and the calls that set their desired state:
 *
 *   quiet    the worker claims nothing more and finishes its running jobs; its shares of totals go to others
 *   resume   it claims again
 *   stop     as its own stop(): no new jobs, running ones get their grace, the remaining ones are handed back
 *
 * The desired state is written to the registry. The worker reads it with the next heartbeat of its process, within 1.2
 * s; `list` shows the mode that each worker reports.
 */
import type { Needs } from "../../engine/services.ts";
import { desiredPut } from "../../engine/fleet/change-numbers.ts";
import type { DesiredState } from "../../engine/fleet/change-numbers.ts";
import { readWorkers } from "../../engine/fleet/registration.ts";
import type { LiveWorker } from "../../engine/fleet/registration.ts";
import { durationMs } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import { checkName } from "../../model/name.ts";
import { checkOptions } from "../../model/option.ts";

export interface WorkerJob {
  readonly id: string;
  readonly queue: string;
  readonly name: string;
  readonly attempt: number;
  /** Since when its handler runs, by the store's clock. */
  readonly since: Date;
}

/** A worker's registration, with times by the store's clock. */
export interface WorkerView extends Pick<LiveWorker, (typeof shownFields)[number]> {
  /** The name by which jobs and attempts refer to it. */
  readonly id: string;
  /** The first twenty of its running jobs. */
  readonly jobs: readonly WorkerJob[];
  readonly startedAt: Date;
  /** When its registration was last written. */
  readonly seenAt: Date;
}

const shownFields = [
  ...(["label", "host", "processId", "mode", "queues", "names", "capabilities"] as const),
  ...(["slots", "totals", "running", "abandoned", "memoryBytes", "loopDelayMs"] as const),
] as const satisfies readonly (keyof LiveWorker)[];

export class Workers {
  readonly #needs: Needs<"store">;

  constructor(needs: Needs<"store">) {
    this.#needs = needs;
  }

  /** All live workers, by label. */
  async list(): Promise<readonly WorkerView[]> {
    const workers = await readWorkers(this.#needs.store, true);
    return workers.map(viewOf).toSorted((one, other) => (orderOf(one) < orderOf(other) ? -1 : 1));
  }

  /** @param worker the id of one, or a label. @returns the workers whose desired state was set, as they were before. */
  quiet(worker: string): Promise<readonly WorkerView[]> {
    return this.#setDesired("quiet", worker, { state: "quiet" });
  }

  resume(worker: string): Promise<readonly WorkerView[]> {
    return this.#setDesired("resume", worker, { state: "running" });
  }

  async stop(worker: string, options: { grace?: Duration } = {}): Promise<readonly WorkerView[]> {
    const { grace } = checkOptions(options, "workers.stop", ["grace"]);
    const graceMs = grace === undefined ? null : durationMs(grace, "workers.stop: grace");
    return this.#setDesired("stop", worker, { state: "stopped", graceMs });
  }

  async #setDesired(what: string, worker: string, desired: DesiredState): Promise<readonly WorkerView[]> {
    checkName(worker, `workers.${what}: worker`);
    const meant = (await this.list()).filter(({ id, label }) => id === worker || label === worker);
    if (meant.length === 0)
      throw new MillraceError("worker-not-found", `There is no live worker ${JSON.stringify(worker)}.`);
    await this.#needs.store.putDocs(meant.map(({ id }) => desiredPut(id, desired)));
    return meant;
  }
}

function orderOf({ label, id }: WorkerView): string {
  return `${label}\0${id}`;
}

/** Times that the worker measured by its own clock are moved to the store's clock. */
function viewOf(live: LiveWorker): WorkerView {
  const { worker, jobs, startedAt, writtenAt, clockAheadMs } = live;
  const seenMs = writtenAt - clockAheadMs;
  const shown = Object.fromEntries(shownFields.map((field) => [field, live[field]]));
  return {
    id: worker,
    ...(shown as Pick<LiveWorker, (typeof shownFields)[number]>),
    jobs: jobs.map(({ runningMs, ...job }) => ({ ...job, since: new Date(seenMs - runningMs) })),
    startedAt: new Date(startedAt - clockAheadMs),
    seenAt: new Date(seenMs),
  };
}
