/** How a worker is set up: what people write, and what is left once it is checked. */
import type { Engine } from "../engine/engine.ts";
import { readCapabilities } from "../model/capability.ts";
import { durationMs } from "../model/duration.ts";
import type { Duration } from "../model/duration.ts";
import { MillraceError, notYetSupported } from "../model/error.ts";
import { checkName } from "../model/name.ts";
import { checkBoolean, checkOptions, checkWhole, isListOfFunctions } from "../model/option.ts";
import type { HandlerMiddleware } from "./middleware.ts";
import type { OnSettled } from "./settled-attempt.ts";

export interface WorkerOptions {
  /** The queues to serve, with their slots. Default: the queues of the handlers, each with `concurrency` slots. */
  queues?: Readonly<Record<string, number>> | readonly string[];
  /** Slots per queue where `queues` does not say; 10 by default. */
  concurrency?: number;
  /** What this worker offers, such as "gpu": it runs the jobs that require nothing else, and those that require nothing. */
  capabilities?: readonly string[];
  /** How long a job stays with a worker that is not heard of; 15 s by default. Leases renew themselves. */
  lease?: Duration;
  /** How long running handlers may finish after stop() before they are aborted; 30 s by default. */
  shutdownGrace?: Duration;
  /** How long an aborted handler may take to unwind; 10 s by default. */
  abortGrace?: Duration;
  middleware?: readonly HandlerMiddleware[];
  /** Told of every attempt that ran, once the store has its end: for meters and logs. It must not wait for anything. */
  onSettled?: OnSettled;
  /** Shown in logs, lists and attempt records. */
  label?: string;
  /**
   * Stop on SIGTERM and SIGINT; a second signal ends the process. Off by default: a library installs no signal handlers
   * unasked.
   */
  signals?: boolean;
}

export interface WorkerSettings {
  readonly owner: string;
  readonly queues: ReadonlyMap<string, number> | null;
  readonly concurrency: number;
  /** Sorted, without repeats. */
  readonly capabilities: readonly string[];
  readonly leaseMs: number;
  readonly shutdownGraceMs: number;
  readonly abortGraceMs: number;
  readonly middleware: readonly HandlerMiddleware[];
  readonly onSettled: OnSettled | null;
  readonly wantsSignals: boolean;
  /** The fleet hears of this worker. */
  readonly isAnnounced: boolean;
}

const slotsMax = 10_000;
const capabilitiesMax = 256;
const leaseMinMs = 100;

export function readWorkerOptions(engine: Engine, options: WorkerOptions): WorkerSettings {
  const known = [
    "queues",
    "concurrency",
    "capabilities",
    "lease",
    "shutdownGrace",
    "abortGrace",
    "middleware",
    "onSettled",
    "label",
    "signals",
  ];
  if (typeof options !== "object" || options === null)
    throw new MillraceError("invalid-option", "work: the options must be an object.");
  refuseLater(options);
  checkOptions(options, "work", known);
  if (options.middleware !== undefined && !isListOfFunctions(options.middleware))
    throw new MillraceError("invalid-option", "work: middleware must be a list of functions.");
  if (options.onSettled !== undefined && typeof options.onSettled !== "function")
    throw new MillraceError("invalid-option", "work: onSettled must be a function.");
  const concurrency = checkWhole(options.concurrency ?? 10, "work: concurrency", 1, slotsMax);
  return {
    owner: makeOwner(engine, options.label),
    queues: options.queues === undefined ? null : readQueues(options.queues, concurrency),
    concurrency,
    capabilities:
      options.capabilities === undefined
        ? []
        : readCapabilities(options.capabilities, "work: capabilities", capabilitiesMax),
    leaseMs: readLease(options.lease, "work: lease"),
    shutdownGraceMs: durationMs(options.shutdownGrace ?? 30_000, "work: shutdownGrace"),
    abortGraceMs: durationMs(options.abortGrace ?? 10_000, "work: abortGrace"),
    middleware: options.middleware ?? [],
    onSettled: options.onSettled ?? null,
    wantsSignals: checkBoolean(options.signals ?? false, "work: signals"),
    isAnnounced: true,
  };
}

export function readLease(lease: unknown, what: string): number {
  const leaseMs = durationMs(lease ?? 15_000, what);
  if (leaseMs < leaseMinMs)
    throw new MillraceError("invalid-duration", `${what} must be at least ${leaseMinMs} ms.`);
  return leaseMs;
}

const laterKeys = ["limits", "workers", "weights"];

function refuseLater(options: object): void {
  for (const key of laterKeys) if (key in options) throw notYetSupported(`work: the option ${key}`);
}

function readQueues(
  queues: Readonly<Record<string, number>> | readonly string[],
  concurrency: number,
): ReadonlyMap<string, number> {
  if (typeof queues !== "object" || queues === null)
    throw new MillraceError(
      "invalid-option",
      "work: queues must be a list of names, or names with their slots.",
    );
  const entries = Array.isArray(queues)
    ? (queues as readonly string[]).map((queue) => [queue, concurrency] as const)
    : Object.entries(queues as Readonly<Record<string, number>>);
  return new Map(
    entries.map(([queue, slots]) => [
      checkName(queue, "work: queue"),
      checkWhole(slots, `work: queues.${queue}`, 1, slotsMax),
    ]),
  );
}

/** Unique per worker, whatever people call it: two processes with one label must not share leases. */
function makeOwner(engine: Engine, label: string | undefined): string {
  const { hostName, processId } = engine.platform;
  const boot = [...engine.platform.randomBytes(4)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const base =
    label === undefined
      ? `${hostName.slice(0, 100)}-${processId}`
      : checkName(label, "work: label").slice(0, 200);
  return `${base}-${boot}`;
}
