/**
 * Which jobs have a tag. The feed does not carry tags, so who filters by one reads the jobs, in batches, once per job.
 * A job that is gone has no tags any more, so its last events may not pass such a filter.
 */
import { BoundedMap } from "../../model/bounded-map.ts";
import type { MillraceEvent } from "../../model/event.ts";
import type { Store } from "../../store/store.ts";

/** Jobs may have large inputs, so few are read at once. */
const batchMax = 100;
const knownMax = 50_000;
const none: readonly string[] = [];

export class JobTags {
  readonly #store: Pick<Store, "readJobs">;
  /** Tags never change, so what is known of a job stays true. */
  readonly #known = new BoundedMap<string, readonly string[]>(knownMax);

  constructor(store: Pick<Store, "readJobs">) {
    this.#store = store;
  }

  async filter(events: readonly MillraceEvent[], tag: string): Promise<readonly MillraceEvent[]> {
    const found: MillraceEvent[] = [];
    for (let from = 0; from < events.length; from += batchMax) {
      const batch = events.slice(from, from + batchMax);
      const tags = await this.#tagsOf([...new Set(batch.map(({ jobId }) => jobId))]);
      found.push(...batch.filter(({ jobId }) => tags.get(jobId)?.includes(tag) === true));
    }
    return found;
  }

  async #tagsOf(ids: readonly string[]): Promise<ReadonlyMap<string, readonly string[]>> {
    const tags = new Map<string, readonly string[]>();
    const unknown = ids.filter((id) => {
      const known = this.#known.get(id);
      if (known !== undefined) tags.set(id, known);
      return known === undefined;
    });
    const records = unknown.length === 0 ? [] : await this.#store.readJobs(unknown);
    for (const record of records) {
      if (record === null) continue;
      tags.set(record.id, record.tags ?? none);
      this.#known.set(record.id, record.tags ?? none);
    }
    return tags;
  }
}
