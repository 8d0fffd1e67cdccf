/**
 * What a live worker lets the others know: which queues it serves, which names it has handlers for, what it
 * offers, and how it fares.
 * The notice is a document that expires unless it is renewed, so a dead worker's notice goes by itself.
 */
import { missingCapabilities } from "../model/capability.ts";
import type { DocPut, Tally } from "../store/records.ts";
import type { Store } from "../store/store.ts";
import { allDocs } from "./all-docs.ts";

const noticeKind = "worker";
const noticeTtlMs = 60_000;
export const noticeEveryMs = 20_000;

export interface WorkerNotice {
  readonly queues: readonly string[];
  readonly names: readonly string[];
  readonly capabilities: readonly string[];
  /** Abandoned attempts whose handler still runs: each holds a slot that it was told to leave, those of a batch one. */
  readonly abandoned: number;
  /** The worker's own wall clock when it wrote the notice, epoch milliseconds. */
  readonly writtenAt: number;
}

export interface LiveWorker extends WorkerNotice {
  /** As lists and attempt records name it. */
  readonly worker: string;
  /** How far its clock was ahead of the store's; the time that the notice was on its way counts as behind. */
  readonly clockAheadMs: number;
}

/** Of these workers those that would run a job of this kind. */
export function servingWorkers<Worker extends Pick<WorkerNotice, "queues" | "names" | "capabilities">>(
  workers: readonly Worker[],
  { queue, name, caps = [] }: Pick<Tally, "queue" | "name" | "caps">,
): readonly Worker[] {
  return workers.filter(
    ({ queues, names, capabilities }) =>
      queues.includes(queue) && names.includes(name) && missingCapabilities(caps, capabilities).length === 0,
  );
}

export function noticePut(owner: string, notice: WorkerNotice | null): DocPut {
  const body = notice === null ? null : JSON.stringify(notice);
  return { kind: noticeKind, id: owner, body, guard: "any", expiresInMs: noticeTtlMs };
}

/** @param passesOver leaves out those that cannot be read and those in partitions that fail, instead of failing. */
export async function readNotices(
  store: Pick<Store, "readDocs">,
  passesOver = false,
): Promise<readonly LiveWorker[]> {
  const workers: LiveWorker[] = [];
  for await (const { id, body, expiresAt } of allDocs(store, { kind: noticeKind, passesOver })) {
    try {
      const notice = JSON.parse(body) as WorkerNotice;
      const putAt = (expiresAt ?? notice.writtenAt + noticeTtlMs) - noticeTtlMs;
      workers.push({ ...notice, worker: id, clockAheadMs: notice.writtenAt - putAt });
    } catch (error) {
      if (!passesOver) throw error;
    }
  }
  return workers;
}
