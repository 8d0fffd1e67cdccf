/** The figures of all duties, summed over the registrations of all processes. */
import type { DutyFigures, PartitionFigures } from "../../engine/duties/duty-figures.ts";
import { readProcesses } from "../../engine/fleet/registration.ts";
import type { Store } from "../../store/store.ts";

interface DutyCounts {
  readonly processed: number;
  readonly errors: number;
  /** Items in quarantine for now; `mill.duties.quarantined()` lists them. */
  readonly quarantined: number;
  /** How long ago any process last did it, when that process wrote its registration; null for never. */
  readonly lagMs: number | null;
}

export interface DutyView extends DutyCounts {
  readonly duty: string;
  /** Processes in which it runs. */
  readonly processes: number;
  /** The sum over these processes, each since its start. */
  readonly passes: number;
  /** The partitions of the store that a process had to pass over. */
  readonly missing: readonly number[];
  /** The figures per partition, as far as they are known; empty on a store of one. */
  readonly partitions: readonly PartitionDutyView[];
}

export interface PartitionDutyView extends DutyCounts {
  readonly partition: number;
}

/** The duties of one process. */
export interface ProcessDuties {
  /** Host and process id. */
  readonly process: string;
  readonly duties: Readonly<Record<string, DutyFigures>>;
}

export async function readProcessDuties(store: Pick<Store, "readDocs">): Promise<readonly ProcessDuties[]> {
  const processes = await readProcesses(store, true);
  return processes.map(({ host, processId, duties }) => ({ process: `${host}:${processId}`, duties }));
}

/** @param names all duties, including those that run in no process. */
export async function readDutyViews(
  store: Pick<Store, "readDocs" | "partitions">,
  names: readonly string[],
): Promise<readonly DutyView[]> {
  const { partitions = 1 } = store;
  const processes = await readProcessDuties(store);
  return names.map((duty) => {
    const figures = processes.flatMap(({ duties }) => duties[duty] ?? []);
    return {
      ...{ duty, processes: figures.length },
      passes: figures.reduce((total, { passes }) => total + passes, 0),
      ...countsOf(figures),
      missing: [...new Set(figures.flatMap(({ missing = [] }) => missing))].toSorted((a, b) => a - b),
      partitions: Array.from({ length: partitions === 1 ? 0 : partitions }, (_, partition) => {
        const own = figures.map(({ lastPassMs, partitions: known = {} }): PartitionFigures => {
          return { lastPassMs, ...known[partition] };
        });
        return { partition, ...countsOf(own) };
      }),
    };
  });
}

function countsOf(figures: readonly PartitionFigures[]): DutyCounts {
  const sum = (field: "processed" | "errors" | "quarantined"): number =>
    figures.reduce((total, figures) => total + (figures[field] ?? 0), 0);
  const lags = figures.flatMap(({ lastPassMs }) => lastPassMs ?? []);
  return {
    ...{ processed: sum("processed"), errors: sum("errors"), quarantined: sum("quarantined") },
    lagMs: lags.length === 0 ? null : Math.min(...lags),
  };
}
