/**
 * Change numbers announce changes to other processes. They are the versions of documents in the registry
 * (registration.ts). A process that changes something writes its document afterwards. Every process reads the numbers
 * with its heartbeat and reads the changed thing if one has grown. Versions never restart, so no number occurs twice.
 *
 * If a number cannot be written, the writer does not wait: a slower read (the renewal of leases, the read of each
 * minute) finds the change too.
 *
 * The desired state of a worker is such a document with a content.
 */
import { storeLimits } from "../../store/contract-limits.ts";
import type { Doc, DocPut, DocWrite } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import type { Logger } from "../log/logger.ts";
import { registryKind, registryPrefix } from "./registration.ts";

/** members: the live workers and the totals that they share. */
export type ChangeTopic = "settings" | "webhooks" | "members";

export type DesiredState =
  | { readonly state: "running" | "quiet" }
  /** `graceMs` null for the worker's own. */
  | { readonly state: "stopped"; readonly graceMs: number | null };

/** A worker that has not read it for this long has other problems. */
const desiredTtlMs = 600_000;
/** A worker that has not read it for this long has lost its leases. */
const cancelsTtlMs = 120_000;

export function changeId(topic: ChangeTopic): string {
  return `${registryPrefix}change/${topic}`;
}

export function desiredId(worker: string): string {
  return `${registryPrefix}desired/${worker}`;
}

export function cancelsId(worker: string): string {
  return `${registryPrefix}cancels/${worker}`;
}

/** Raises a change number. */
export function changePut(topic: ChangeTopic): DocWrite {
  return { kind: registryKind, id: changeId(topic), body: "", guard: "any" };
}

export function desiredPut(worker: string, desired: DesiredState): DocPut {
  const body = JSON.stringify(desired);
  return { kind: registryKind, id: desiredId(worker), body, guard: "any", expiresInMs: desiredTtlMs };
}

/** Null for a state that only a newer version knows. */
export function readDesired({ body }: Doc): DesiredState | null {
  try {
    const { state, graceMs } = JSON.parse(body) as { state?: unknown; graceMs?: unknown };
    if (state === "running" || state === "quiet") return { state };
    return state === "stopped" ? { state, graceMs: typeof graceMs === "number" ? graceMs : null } : null;
  } catch {
    return null;
  }
}

interface Surroundings {
  readonly store: Pick<Store, "putDocs">;
  readonly log: Logger;
}

/** @param workers those with jobs to be cancelled. */
export function cancelsChanged(around: Surroundings, workers: ReadonlySet<string>): Promise<void> {
  const puts = [...workers].map((worker): DocPut => {
    return { kind: registryKind, id: cancelsId(worker), body: "", guard: "any", expiresInMs: cancelsTtlMs };
  });
  return raise(around, puts);
}

export async function raise({ store, log }: Surroundings, puts: readonly DocPut[]): Promise<void> {
  try {
    for (let from = 0; from < puts.length; from += storeLimits.callItemsMax)
      await store.putDocs(puts.slice(from, from + storeLimits.callItemsMax));
  } catch (error) {
    log.debug(
      "a change number could not be written; processes will find the change by their next slow read",
      {
        error,
      },
    );
  }
}
