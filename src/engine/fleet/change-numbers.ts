/**
 * How a process learns from another that it must look: by change numbers, which are the versions of documents of the
 * registry (registration.ts). Whoever changes something writes its document after the change; every process reads the
 * numbers with its heartbeat and looks if one has grown. Versions never restart, so a number is never seen twice.
 *
 * A number that cannot be written is not waited for: a slower read (the renewal of leases, the look of each minute)
 * finds the change too.
 *
 * The desired state of a worker is such a document with a content.
 */
import { storeLimits } from "../../store/contract-limits.ts";
import type { Doc, DocPut } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import type { Logger } from "../log/logger.ts";
import { registryKind, registryPrefix } from "./registration.ts";

/** members: which workers there are, and what they share. */
export type ChangeTopic = "settings" | "webhooks" | "members";

export type DesiredState =
  | { readonly state: "running" | "quiet" }
  /** `graceMs` null for the worker's own. */
  | { readonly state: "stopped"; readonly graceMs: number | null };

/** A worker that reads nothing for so long has other troubles. */
const desiredTtlMs = 600_000;
/** A worker that reads nothing for so long has lost its leases. */
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
export function changePut(topic: ChangeTopic): DocPut {
  return { kind: registryKind, id: changeId(topic), body: "", guard: "any" };
}

export function desiredPut(worker: string, desired: DesiredState): DocPut {
  const body = JSON.stringify(desired);
  return { kind: registryKind, id: desiredId(worker), body, guard: "any", expiresInMs: desiredTtlMs };
}

/** Null for a state that a newer version may know. */
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

/** @param workers whose running jobs are to be cancelled. */
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
    log.debug("a change number could not be written; processes find the change by their next slow look", {
      error,
    });
  }
}
