/**
 * The registry of workers: what a live worker lets the others know of itself. The notice is a document that expires
 * unless it is renewed, so a dead worker's notice goes by itself. Notices, orders and bells (worker-bell.ts) are
 * documents of one kind, so that one read brings all of them:
 *
 *   {workers}/live/worker      its notice
 *   {workers}/order/worker     what an operator wants of it
 *   {workers}/cancel/worker    rung when one of its jobs is to be cancelled
 *   {workers}/settings/worker  rung when one of its queues was set
 *   {workers}/webhooks         rung when webhooks were changed
 *   {workers}/holder/process   lasts while a process that holds terms lives (term-book.ts)
 *   {workers}/left/worker      it was told that the worker left: by itself, or by the first that misses its notice
 *
 * The braces let all of them lie in one partition, which alone is asked.
 */
import { missingCapabilities } from "../model/capability.ts";
import { MillraceError } from "../model/error.ts";
import type { Doc, DocPut, Tally } from "../store/records.ts";
import type { Store } from "../store/store.ts";
import { allDocs } from "./all-docs.ts";
import type { DutyTally } from "./duties/duty-tally.ts";

export const workerKind = "worker";
/** What the ids of all documents of the registry begin with. */
export const registryPrefix = "{workers}/";
const noticeTopic = "live";

export type WorkerMode = "working" | "quiet" | "stopping";

export interface CurrentJob {
  readonly id: string;
  readonly queue: string;
  readonly name: string;
  readonly attempt: number;
  /** For how long its handler had run when the notice was written. */
  readonly runningMs: number;
}

export interface WorkerNotice {
  readonly label: string;
  readonly host: string;
  readonly processId: number;
  readonly mode: WorkerMode;
  readonly queues: readonly string[];
  readonly names: readonly string[];
  readonly capabilities: readonly string[];
  /** Slots by queue, as they are now. */
  readonly slots: Readonly<Record<string, number>>;
  /** The queues of which its code has declared a total, with it. */
  readonly totals: Readonly<Record<string, number>>;
  /** The weights of its queues against each other where its bound is too small for its shares; 1 where left out. */
  readonly weights: Readonly<Record<string, number>>;
  /** How many slots totals may give it. */
  readonly slotsMax: number;
  /** Jobs whose handlers run. */
  readonly running: number;
  /** The first of them. */
  readonly jobs: readonly CurrentJob[];
  /** Abandoned attempts whose handler still runs: each holds a slot that it was told to leave, those of a batch one. */
  readonly abandoned: number;
  /** Of its process. */
  readonly memoryBytes: number;
  /** By how much the event loop of its process was late at worst since the last notice. */
  readonly loopDelayMs: number;
  /** What the duties of its process have done, by their names. */
  readonly duties: Readonly<Record<string, DutyTally>>;
  /** Its own wall clock at its start and when it wrote the notice, epoch milliseconds. */
  readonly startedAt: number;
  readonly writtenAt: number;
  /** How long the notice holds. */
  readonly ttlMs: number;
}

export interface LiveWorker extends WorkerNotice {
  /** As lists and attempt records name it. */
  readonly worker: string;
  /** When the notice runs out unless it is renewed, by the store's clock. */
  readonly expiresAt: number;
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

export function workerDocId(topic: string, owner: string): string {
  return `${registryPrefix}${topic}/${owner}`;
}

/** @param notice null for a worker that has stopped. */
export function noticePut(owner: string, notice: WorkerNotice | null): DocPut {
  const put = { kind: workerKind, id: workerDocId(noticeTopic, owner), guard: "any" } as const;
  if (notice === null) return { ...put, body: null };
  return { ...put, body: JSON.stringify(notice), expiresInMs: notice.ttlMs };
}

/** Longer than any process may take to miss a notice. */
const leftTtlMs = 600_000;

/**
 * Tells that a worker left, once: a second put that asks for its absence is refused. @param isOwn it says so itself.
 */
export function leftPut(owner: string, isOwn: boolean): DocPut {
  const tells = { kind: "worker-left", subject: owner, extra: null } as const;
  const id = workerDocId("left", owner);
  return { kind: workerKind, id, body: "", guard: isOwn ? "any" : "absent", expiresInMs: leftTtlMs, tells };
}

/** The live worker that a document of the registry tells of; null for one that is no notice or cannot be read. */
export function readNotice({ id, body, expiresAt }: Doc): LiveWorker | null {
  const begin = workerDocId(noticeTopic, "");
  if (!id.startsWith(begin)) return null;
  try {
    const notice = JSON.parse(body) as WorkerNotice;
    const until = expiresAt ?? notice.writtenAt + notice.ttlMs;
    const clockAheadMs = notice.writtenAt - (until - notice.ttlMs);
    return { ...notice, worker: id.slice(begin.length), expiresAt: until, clockAheadMs };
  } catch {
    return null;
  }
}

/**
 * @param passesOver leaves out those that cannot be read and those in partitions that fail, instead of failing.
 */
export async function readNotices(
  store: Pick<Store, "readDocs">,
  passesOver = false,
): Promise<readonly LiveWorker[]> {
  const workers: LiveWorker[] = [];
  for await (const doc of allDocs(store, {
    kind: workerKind,
    prefix: workerDocId(noticeTopic, ""),
    passesOver,
  })) {
    const worker = readNotice(doc);
    if (worker !== null) workers.push(worker);
    else if (!passesOver)
      throw new MillraceError("store-corrupt", `The notice of a worker cannot be read: ${doc.id}.`);
  }
  return workers;
}
