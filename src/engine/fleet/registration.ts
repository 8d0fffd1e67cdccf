/**
 * The registry shows the processes of a store to each other. Each process with workers or duties has one registration,
 * which also names its workers. It is a document that expires unless the heartbeat of the process renews it
 * (heartbeat.ts), so a killed process disappears by itself.
 *
 *   {webhooks}/process/PROCESS   the registration of a process
 *   {webhooks}/leader            the process that does the duties that run once per store (leadership.ts)
 *   {webhooks}/change/WHAT       change numbers (change-numbers.ts)
 *   {webhooks}/desired/WORKER    the desired state of a worker
 *   {webhooks}/cancels/WORKER    the change number of the cancels of a worker's jobs
 *   {webhooks}/left/WORKER       the event that this worker left was emitted
 *
 * All are documents of one kind, so one read returns them. The braces place them in the partition of the webhooks,
 * because deliveries are written under a check of the leader.
 */
import { missingCapabilities } from "../../model/routing/capability.ts";
import { MillraceError } from "../../model/error.ts";
import { webhooksId } from "../../model/events/webhook.ts";
import type { Doc, DocPut, StateCount } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import { allDocs } from "../docs/all-docs.ts";
import type { DutyFigures } from "../duties/duty-figures.ts";

export const registryKind = "registry";
export const registryPrefix = `${webhooksId}/`;

export type WorkerMode = "working" | "quiet" | "stopping";

export interface CurrentJob {
  readonly id: string;
  readonly queue: string;
  readonly name: string;
  readonly attempt: number;
  /** How long its handler had run when the registration was written. */
  readonly runningMs: number;
}

export interface WorkerRegistration {
  readonly label: string;
  readonly mode: WorkerMode;
  readonly queues: readonly string[];
  readonly names: readonly string[];
  readonly capabilities: readonly string[];
  /** By the name of a durable job, the versions of its handler; absent for no durable handlers. */
  readonly versions?: Readonly<Record<string, readonly number[]>>;
  /** Its present slots, by queue. */
  readonly slots: Readonly<Record<string, number>>;
  /** The total of each queue for which the worker's code or an operator sets one. */
  readonly totals: Readonly<Record<string, number>>;
  /** The weights of its queues, used if its bound is too small for all its shares; 1 if left out. */
  readonly weights: Readonly<Record<string, number>>;
  /** The most slots that totals may give it. */
  readonly slotsMax: number;
  /** The number of jobs whose handlers run. */
  readonly running: number;
  /** The first of them. */
  readonly jobs: readonly CurrentJob[];
  /** Abandoned attempts whose handler still runs. Each occupies a slot; a batch occupies one. */
  readonly abandoned: number;
  /** When it started, by its own wall clock in epoch milliseconds. */
  readonly startedAt: number;
}

export interface ProcessFacts {
  readonly host: string;
  readonly processId: number;
  readonly memoryBytes: number;
  /** The longest delay of the event loop since the last registration. */
  readonly loopDelayMs: number;
  /** The figures of the duties of the process, by name. */
  readonly duties: Readonly<Record<string, DutyFigures>>;
  /** Whether it may become the leader: all duties that run once per store are switched on. */
  readonly isCandidate: boolean;
  /** When it wrote this, by its own wall clock in epoch milliseconds. */
  readonly writtenAt: number;
  /** How long the registration is valid. */
  readonly ttlMs: number;
}

export interface Registration extends ProcessFacts {
  /** By the ids of the workers. */
  readonly workers: Readonly<Record<string, WorkerRegistration>>;
}

interface Live {
  /** When the registration expires unless it is renewed, by the store's clock. */
  readonly expiresAt: number;
  /** How far its clock was ahead of the store's. The duration of the write makes this look smaller. */
  readonly clockAheadMs: number;
}

export interface LiveProcess extends Registration, Live {
  /** Names the process for good. */
  readonly process: string;
}

export interface LiveWorker extends WorkerRegistration, ProcessFacts, Live, Pick<LiveProcess, "process"> {
  /** The worker's id, as lists and attempt records name it. */
  readonly worker: string;
}

/** The workers that would run a job of this kind. */
export function servingWorkers<Worker extends Pick<WorkerRegistration, "queues" | "names" | "capabilities">>(
  workers: readonly Worker[],
  { queue, name, requires = [] }: Pick<StateCount, "queue" | "name" | "requires">,
): readonly Worker[] {
  return workers.filter(
    ({ queues, names, capabilities }) =>
      queues.includes(queue) &&
      names.includes(name) &&
      missingCapabilities(requires, capabilities).length === 0,
  );
}

/** The workers that could go on with a durable run which began with this version of its handler. */
export function workersWithVersion<Worker extends Pick<WorkerRegistration, "versions">>(
  workers: readonly Worker[],
  name: string,
  version: number,
): readonly Worker[] {
  return workers.filter(({ versions = {} }) =>
    Object.hasOwn(versions, name) ? versions[name]?.includes(version) : false,
  );
}

const processPrefix = `${registryPrefix}process/`;

export function processDocId(process: string): string {
  return `${processPrefix}${process}`;
}

/** @param registration null for a process that has stopped. */
export function registrationPut(process: string, registration: Registration | null): DocPut {
  const put = { kind: registryKind, id: processDocId(process), guard: "any" } as const;
  if (registration === null) return { ...put, body: null };
  return { ...put, body: JSON.stringify(registration), expiresInMs: registration.ttlMs };
}

/** Longer than any process takes to notice that a registration is gone. */
const leftTtlMs = 600_000;

/**
 * Emits once that a worker left: a second put, guarded by the absence of the document, is refused. @param isOwn whether
 * the worker emits it itself.
 */
export function leftPut(worker: string, isOwn: boolean): DocPut {
  const emits = { kind: "worker-left", subject: worker, extra: null } as const;
  const id = `${registryPrefix}left/${worker}`;
  return { kind: registryKind, id, body: "", guard: isOwn ? "any" : "absent", expiresInMs: leftTtlMs, emits };
}

/** The process of a registration; null if the document is another one or is unreadable. */
export function readRegistration({ id, body, expiresAt }: Doc): LiveProcess | null {
  if (!id.startsWith(processPrefix)) return null;
  try {
    const registration = JSON.parse(body) as Registration;
    const { writtenAt, ttlMs, workers } = registration;
    if (typeof workers !== "object") return null;
    const until = expiresAt ?? writtenAt + ttlMs;
    const process = id.slice(processPrefix.length);
    return { ...registration, process, expiresAt: until, clockAheadMs: writtenAt - (until - ttlMs) };
  } catch {
    return null;
  }
}

export function workersOf({ workers, ...process }: LiveProcess): readonly LiveWorker[] {
  return Object.entries(workers).map(([worker, own]) => ({ ...process, ...own, worker }));
}

/** @param passesOver skips registrations that are unreadable or in partitions that fail, instead of failing. */
export async function readProcesses(
  store: Pick<Store, "readDocs">,
  passesOver = false,
): Promise<readonly LiveProcess[]> {
  const processes: LiveProcess[] = [];
  for await (const doc of allDocs(store, { kind: registryKind, prefix: processPrefix, passesOver })) {
    const process = readRegistration(doc);
    if (process !== null) processes.push(process);
    else if (!passesOver)
      throw new MillraceError("store-corrupt", `The registration of a process cannot be read: ${doc.id}.`);
  }
  return processes;
}

/** The workers of all processes; otherwise as `readProcesses`. */
export async function readWorkers(
  store: Pick<Store, "readDocs">,
  passesOver = false,
): Promise<readonly LiveWorker[]> {
  return (await readProcesses(store, passesOver)).flatMap(workersOf);
}
