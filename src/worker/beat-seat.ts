/** A worker as the beat of its process sees it: what is told of it, and what it is told (fleet-seat.ts). */
import type { WorkerOrder } from "../engine/worker-bell.ts";
import type { LiveWorker, WorkerNotice } from "../engine/worker-notice.ts";

export interface BeatSeat {
  readonly owner: string;
  /** One of its queues has a total, so that it must know who else is there. */
  readonly hasTotals: boolean;
  readonly notice: () => Omit<
    WorkerNotice,
    "host" | "processId" | "duties" | "memoryBytes" | "loopDelayMs" | "writtenAt" | "ttlMs"
  >;
  readonly ordered: (order: WorkerOrder) => void;
  /** These jobs are to be cancelled, or, where some bells were not heard, perhaps any. */
  readonly cancelRung: (ids: readonly string[] | null) => void;
  /** All live workers, as the registry has them. */
  readonly fleetSeen: (workers: readonly LiveWorker[]) => void;
  /** The registry cannot be read. */
  readonly fleetUnseen: () => void;
}
