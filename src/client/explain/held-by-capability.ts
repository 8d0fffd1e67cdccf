/**
 * Ready jobs that no live worker can take, because no worker with a handler for them offers the capabilities that they
 * require. Registrations of workers are read only if a job may be held.
 */
import { readWorkers, servingWorkers } from "../../engine/fleet/registration.ts";
import type { WorkerRegistration } from "../../engine/fleet/registration.ts";
import { missingCapabilities } from "../../model/routing/capability.ts";
import type { StateCount } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";

export interface HeldByCapability {
  readonly by: "capability";
  /**
   * The capabilities that no live worker with a handler offers. If each is offered, but not by one worker, all required
   * ones.
   */
  readonly missing: readonly string[];
}

type Kind = Pick<StateCount, "queue" | "name" | "requires" | "state">;
type Offer = Pick<WorkerRegistration, "queues" | "names" | "capabilities">;

export function heldByCapability(kind: Kind, workers: readonly Offer[]): HeldByCapability | null {
  const { queue, name, requires = [] } = kind;
  if (!mayBeHeld(kind)) return null;
  const withHandler = servingWorkers(workers, { queue, name });
  if (withHandler.length === 0 || servingWorkers(withHandler, kind).length > 0) return null;
  const missing = missingCapabilities(
    requires,
    withHandler.flatMap(({ capabilities }) => capabilities),
  );
  return { by: "capability", missing: missing.length === 0 ? requires : missing };
}

/** @returns what holds each kind; null for one that is not held. */
export async function readHeldByCapability(
  store: Pick<Store, "readDocs">,
  kinds: readonly Kind[],
): Promise<readonly (HeldByCapability | null)[]> {
  const workers = kinds.some(mayBeHeld) ? await readWorkers(store, true) : [];
  return kinds.map((kind) => heldByCapability(kind, workers));
}

function mayBeHeld({ state, requires = [] }: Kind): boolean {
  return state === "ready" && requires.length > 0;
}
