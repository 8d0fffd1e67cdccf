/** What the duties of all processes with a live worker have done, from the notices of these workers. */
import { readNotices } from "../engine/worker-notice.ts";
import type { LiveWorker } from "../engine/worker-notice.ts";
import type { Store } from "../store/store.ts";

export interface DutyView {
  readonly duty: string;
  /** Processes in which it runs. */
  readonly processes: number;
  /** Of all of them, since each has started. */
  readonly passes: number;
  readonly processed: number;
  readonly errors: number;
  /** Items that are left alone for now; `quarantined()` lists them. */
  readonly aside: number;
  /** How long ago it was last done by anybody, as of that process's notice; null for never. */
  readonly lagMs: number | null;
  /** The partitions of the store that somebody had to pass over. */
  readonly missing: readonly number[];
}

/** @param names the duties that there are: those that nobody runs are told, too. */
export async function readDutyViews(
  store: Pick<Store, "readDocs">,
  names: readonly string[],
): Promise<readonly DutyView[]> {
  // The workers of one process tell the same duties.
  const processes = new Map<string, LiveWorker>();
  for (const worker of await readNotices(store, true))
    processes.set(JSON.stringify([worker.host, worker.processId]), worker);
  return names.map((duty) => {
    const tallies = [...processes.values()].flatMap(({ duties }) => duties[duty] ?? []);
    const sum = (field: "passes" | "processed" | "errors" | "aside"): number =>
      tallies.reduce((total, tally) => total + tally[field], 0);
    const lags = tallies.flatMap(({ lastPassMs }) => lastPassMs ?? []);
    return {
      ...{ duty, processes: tallies.length, passes: sum("passes"), processed: sum("processed") },
      ...{ errors: sum("errors"), aside: sum("aside") },
      lagMs: lags.length === 0 ? null : Math.min(...lags),
      missing: [...new Set(tallies.flatMap(({ missing = [] }) => missing))].toSorted((a, b) => a - b),
    };
  });
}
