/**
 * What holds a ready job back although workers with a handler for it are there. A held job is `ready` and stays so;
 * lists, counts and explain say what it waits for. Notices of workers are read only where a job may be held.
 */
import { readNotices, servingWorkers } from "../engine/worker-notice.ts";
import type { WorkerNotice } from "../engine/worker-notice.ts";
import { missingCapabilities } from "../model/capability.ts";
import type { Tally } from "../store/records.ts";
import type { Store } from "../store/store.ts";

export type Held = {
  readonly by: "capability";
  /** What no live worker with a handler for it offers; all that it requires where each is offered, but not together. */
  readonly missing: readonly string[];
};

type Kind = Pick<Tally, "queue" | "name" | "caps" | "state">;
type Offer = Pick<WorkerNotice, "queues" | "names" | "capabilities">;

export function heldOf(kind: Kind, workers: readonly Offer[]): Held | null {
  const { queue, name, caps = [] } = kind;
  if (!mayBeHeld(kind)) return null;
  const withHandler = servingWorkers(workers, { queue, name });
  if (withHandler.length === 0 || servingWorkers(withHandler, kind).length > 0) return null;
  const missing = missingCapabilities(
    caps,
    withHandler.flatMap(({ capabilities }) => capabilities),
  );
  return { by: "capability", missing: missing.length === 0 ? caps : missing };
}

/** @returns what holds each of these. */
export async function readHeld(
  store: Pick<Store, "readDocs">,
  kinds: readonly Kind[],
): Promise<readonly (Held | null)[]> {
  const workers = kinds.some(mayBeHeld) ? await readNotices(store, true) : [];
  return kinds.map((kind) => heldOf(kind, workers));
}

function mayBeHeld({ state, caps = [] }: Kind): boolean {
  return state === "ready" && caps.length > 0;
}
