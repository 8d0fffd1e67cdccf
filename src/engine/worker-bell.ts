/**
 * How one process gets the attention of another without a hint: an order to a worker, and bells. Each is a document of
 * the registry (worker-notice.ts) that the worker reads with its beat; that its version has grown says that it was
 * written again. Versions of documents never restart, so none is taken for one that was heard before.
 *
 * A put that rings (`rings`) also tells a hint, so that everybody reads at once; the beat stands behind it, because a
 * hint may be lost. The bell of cancels does not ring: a cancel has a hint of its own. A bell that cannot be written is
 * not waited for, because another slow read (the renewal of leases, the round of notices) comes anyway.
 */
import { storeLimits } from "../store/limits.ts";
import type { Doc, DocPut } from "../store/records.ts";
import type { Store } from "../store/store.ts";
import type { Logger } from "./logger.ts";
import { readNotices, registryPrefix, workerDocId, workerKind } from "./worker-notice.ts";

export type WorkerOrder =
  | { readonly to: "quiet" | "resume" }
  /** `graceMs` null for the worker's own. */
  | { readonly to: "stop"; readonly graceMs: number | null };

/** A worker that does not listen for so long has other troubles. */
const orderTtlMs = 600_000;
const bellTtlMs = 60_000;

/** Rung for all workers when webhooks were changed. */
export const webhooksBellId = `${registryPrefix}webhooks`;

/** The documents that a worker listens to. */
export function bellIds(owner: string): {
  readonly order: string;
  readonly cancel: string;
  settings: string;
} {
  return {
    order: workerDocId("order", owner),
    cancel: workerDocId("cancel", owner),
    settings: workerDocId("settings", owner),
  };
}

export function orderPut(owner: string, order: WorkerOrder): DocPut {
  return rings(put(bellIds(owner).order, JSON.stringify(order), orderTtlMs));
}

/** Null for what a newer version may order. */
export function readOrder({ body }: Doc): WorkerOrder | null {
  try {
    const { to, graceMs } = JSON.parse(body) as { to?: unknown; graceMs?: unknown };
    if (to === "quiet" || to === "resume") return { to };
    return to === "stop" ? { to, graceMs: typeof graceMs === "number" ? graceMs : null } : null;
  } catch {
    return null;
  }
}

interface Surroundings {
  readonly store: Pick<Store, "putDocs">;
  readonly log: Logger;
}

/** @param idsByOwner the jobs whose cancel was asked for, by the worker that runs them. */
export function ringCancel(
  around: Surroundings,
  idsByOwner: ReadonlyMap<string, readonly string[]>,
): Promise<void> {
  const puts = [...idsByOwner].map(([owner, ids]) =>
    put(bellIds(owner).cancel, JSON.stringify(ids), bellTtlMs),
  );
  return ring(around, puts);
}

/** The jobs that a bell names; a bell that was not heard may have named others. */
export function readCancelled({ body }: Doc): readonly string[] {
  try {
    const ids: unknown = JSON.parse(body);
    return Array.isArray(ids) ? ids.map(String) : [];
  } catch {
    return [];
  }
}

/** The queue was set: those who serve it are told. */
export async function ringSettings(
  around: Surroundings & { readonly store: Pick<Store, "putDocs" | "readDocs"> },
  queue: string,
): Promise<void> {
  try {
    const serving = (await readNotices(around.store, true)).filter(({ queues }) => queues.includes(queue));
    const puts = serving.map(({ worker }) => put(bellIds(worker).settings, "", bellTtlMs));
    // One ring for all of them, behind the last.
    await ring(around, [...puts.slice(0, -1), ...puts.slice(-1).map(rings)]);
  } catch (error) {
    around.log.debug("workers could not be told of a queue's settings; they find out by themselves", {
      error,
    });
  }
}

/** Webhooks were changed: the process that is to make their deliveries may know of none. */
export function ringWebhooks(around: Surroundings): Promise<void> {
  return ring(around, [rings(put(webhooksBellId, "", bellTtlMs))]);
}

/** The put as one that makes all who listen to documents of the registry read them now. */
export function rings<Put extends DocPut>(quiet: Put): Put {
  return { ...quiet, tells: { kind: "rung", subject: quiet.id, extra: null } };
}

async function ring({ store, log }: Surroundings, puts: readonly DocPut[]): Promise<void> {
  if (puts.length === 0) return;
  try {
    for (let from = 0; from < puts.length; from += storeLimits.callItemsMax)
      await store.putDocs(puts.slice(from, from + storeLimits.callItemsMax));
  } catch (error) {
    log.debug("workers could not be told; they find out by themselves", { error });
  }
}

function put(id: string, body: string, expiresInMs: number): DocPut {
  return { kind: workerKind, id, body, guard: "any", expiresInMs };
}
