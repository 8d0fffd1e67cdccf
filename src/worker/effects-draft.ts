/**
 * What a handler wants to happen together with the end of its job: follow-up jobs and writes to the caller's KV.
 * Collected while it runs, applied in the same atomic step as the settle, thrown away on retry, snooze, cancel and lost
 * lease.
 */
import { kvPut } from "../engine/kv.ts";
import type { Effects, DocPut, NewJob } from "../store/records.ts";

export class EffectsDraft {
  readonly #jobs: (NewJob | Promise<NewJob>)[] = [];
  readonly #docs: DocPut[] = [];

  addJob(job: NewJob | Promise<NewJob>): void {
    this.#jobs.push(job);
    // Awaited in `build`; a refused input must not count as an unhandled rejection before that.
    if (job instanceof Promise) job.catch(() => {});
  }

  putDoc(
    key: string,
    body: string | null,
    options: { readonly version?: number; readonly ttlMs?: number } = {},
  ): void {
    this.#docs.push(kvPut(key, body, options));
  }

  /** The value this draft would write: undefined when it does not touch the key. */
  bodyOf(id: string): string | null | undefined {
    return this.#docs.findLast((doc) => doc.id === id)?.body;
  }

  get isEmpty(): boolean {
    return this.#jobs.length === 0 && this.#docs.length === 0;
  }

  async build(): Promise<Effects> {
    const jobs = await Promise.all(this.#jobs.map(async (job) => job));
    return {
      ...(jobs.length === 0 ? {} : { jobs }),
      ...(this.#docs.length === 0 ? {} : { docs: this.#docs }),
    };
  }
}
