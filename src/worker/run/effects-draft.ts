/**
 * What a handler wants to happen together with the end of its job: follow-up jobs and flows, new nodes of its flow, and
 * KV writes. They are collected while it runs, applied in the same atomic step as the settle, and discarded on retry,
 * snooze, cancel and lost lease.
 */
import type { Growing } from "../../engine/flows/grow-flow.ts";
import type { Effects, DocPut, NewJob } from "../../store/records.ts";

export class EffectsDraft {
  readonly #jobs: (NewJob | Promise<NewJob>)[] = [];
  readonly #flows: Promise<readonly NewJob[]>[] = [];
  readonly #docs: DocPut[] = [];
  /** The nodes that are added to the job's flow. */
  #growth: (() => Promise<Growing>) | null = null;

  addJob(job: NewJob | Promise<NewJob>): void {
    this.#jobs.push(job);
    // `build` awaits it. Until then a refused input must not count as an unhandled rejection.
    if (job instanceof Promise) job.catch(() => {});
  }

  /** @param jobs a flow with its members. */
  addFlow(jobs: Promise<readonly NewJob[]>): void {
    this.#flows.push(jobs);
    jobs.catch(() => {});
  }

  addGrowth(plan: () => Promise<Growing>): void {
    this.#growth = plan;
  }

  putDocs(puts: readonly DocPut[]): void {
    this.#docs.push(...puts);
  }

  /** The value that this draft would write; undefined if it does not write the key. */
  bodyOf(id: string): string | null | undefined {
    return this.#docs.findLast((doc) => doc.id === id)?.body;
  }

  get isEmpty(): boolean {
    const hasJobs = this.#jobs.length > 0 || this.#flows.length > 0;
    return !hasJobs && this.#docs.length === 0 && this.#growth === null;
  }

  async build(): Promise<Effects> {
    const { jobs: members = [], ...growth } = (await this.#growth?.()) ?? {};
    const flows = this.#flows.length === 0 ? [] : (await Promise.all(this.#flows)).flat();
    const jobs = [...(await Promise.all(this.#jobs.map(async (job) => job))), ...flows, ...members];
    return {
      ...(jobs.length === 0 ? {} : { jobs }),
      ...growth,
      ...(this.#docs.length === 0 ? {} : { docs: this.#docs }),
    };
  }
}
