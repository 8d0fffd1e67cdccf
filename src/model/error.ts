/**
 * The one error class of Millrace and the catalogue of its codes.
 *
 * Everything that can go wrong outside the program itself carries a code from this table. Codes are stable: users match
 * on them, and the docs page and the HTTP statuses are made from them. A bug in the program is an assertion and an
 * expected refusal is a returned union. Neither belongs here.
 */

interface ErrorEntry {
  /** The HTTP status that the server answers. */
  readonly status: number;
  /** True when the same call may succeed later without a change by the caller. */
  readonly retryable: boolean;
  readonly meaning: string;
}

const entry = (status: number, retryable: boolean, meaning: string): ErrorEntry => ({
  status,
  retryable,
  meaning,
});

export const errorCatalogue = {
  "invalid-name": entry(
    400,
    false,
    "A queue, job, key, tag or id is empty, longer than 255 bytes or has control characters.",
  ),
  "invalid-option": entry(400, false, "An option is unknown, of the wrong type or out of range."),
  "invalid-duration": entry(
    400,
    false,
    'A duration is negative, not a number, absurdly long or not written like "10m".',
  ),
  "invalid-schedule": entry(
    400,
    false,
    "A schedule's cron text, calendar or zone cannot be read, or it would never fire.",
  ),
  "invalid-input": entry(400, false, "The input does not match the job's schema."),
  "invalid-result": entry(400, false, "The handler's result does not match the job's result schema."),
  "payload-too-large": entry(413, false, "The encoded input or result is larger than the payload limit."),
  "output-full": entry(
    413,
    false,
    "The job has written as many output frames, or as much, as it may; `frames: { keep }` keeps the newest.",
  ),
  "payload-not-encodable": entry(
    400,
    false,
    "The value has a part the codec cannot store, such as a function or a cycle.",
  ),
  "payload-unreadable": entry(
    500,
    false,
    "A stored payload cannot be decoded: damaged, or written by another codec.",
  ),
  "unknown-key": entry(500, false, "A stored payload was encrypted with a key that is not in the key ring."),
  "not-yet-supported": entry(
    501,
    false,
    "The option or operation belongs to a later version and is refused, not ignored.",
  ),
  "id-conflict": entry(409, false, "A job with this caller-given id exists with another name or input."),
  "placement-conflict": entry(
    400,
    false,
    "Things that must be written in one step lie in different partitions of the store.",
  ),
  "other-job": entry(409, false, "The id belongs to a job of another name than the one that was asked for."),
  "key-held": entry(409, false, "The job's unique key is held by another live job."),
  "intake-closed": entry(503, true, "The queue takes no new jobs: somebody closed its intake."),
  "unknown-limit": entry(404, false, "No limit of this name is known to the store."),
  "limit-busy": entry(503, true, "No permit of the limit was free within the wait."),
  "limit-conflict": entry(409, false, "One process uses a limit with two definitions."),
  "unknown-budget": entry(404, false, "No budget of this name is known to the store."),
  "budget-conflict": entry(409, false, "One process uses a budget with two definitions."),
  "budget-spent": entry(
    503,
    true,
    "The budget has not so much left in its period. A handler that does not catch it comes again when the period ends.",
  ),
  "unknown-schedule": entry(404, false, "No schedule of this name is in the store."),
  "schedule-conflict": entry(409, false, "Workers of one process declare a schedule in two ways."),
  "schedule-unreadable": entry(
    500,
    false,
    "A stored schedule cannot be read: damaged, of a newer version, or in a zone that this Node.js does not know.",
  ),
  "unknown-webhook": entry(404, false, "No webhook of this name is in the store."),
  "unknown-topic": entry(
    404,
    false,
    "The store knows no topic of this name: nobody declared it or subscribed to it.",
  ),
  "unknown-subscription": entry(404, false, "The topic has no subscription of this name."),
  "subscription-conflict": entry(
    409,
    false,
    "A worker's list has two subscriptions of one name to one topic.",
  ),
  "topic-unreadable": entry(500, false, "A stored topic cannot be read: damaged, or of a newer version."),
  "backfill-running": entry(409, false, "The schedule has a backfill that is not done."),
  "invalid-cursor": entry(
    400,
    false,
    "A cursor of events or frames cannot be read, is of another store, or lies after the end of the feed.",
  ),
  "cursor-expired": entry(410, false, "The events after this cursor are no longer kept."),
  "handler-not-loaded": entry(
    500,
    true,
    "A handler's file or program is not there, threw while it was loaded, or was not ready in time.",
  ),
  "sandbox-lost": entry(
    500,
    true,
    "The thread or child process that ran the handler ended in the middle of it, or did not stop when it was asked to.",
  ),
  "sandbox-garbled": entry(
    500,
    true,
    "A child process wrote something that is no message, or a message that is too long, and was ended.",
  ),
  "sandbox-overrun": entry(
    500,
    true,
    "A thread, child process or command took more memory or printed more than it may, and was ended.",
  ),
  "command-failed": entry(
    500,
    true,
    "A command could not be started, ended with an exit code that is no success, or ran too long.",
  ),
  "command-not-allowed": entry(
    403,
    false,
    "A job asked for a command, a folder or a variable that its handler does not allow.",
  ),
  "invalid-flow": entry(
    400,
    false,
    "The graph has a cycle, an unknown or duplicate node, a duplicate edge, or a join that can never be satisfied.",
  ),
  "flow-closed": entry(
    409,
    false,
    "The flow has ended or is being cancelled, so nothing can be added to it.",
  ),
  "flow-not-found": entry(404, false, "No flow with this id, or it was pruned."),
  "flow-member": entry(409, false, "The job is a member of a flow, which is operated on as a whole."),
  "flow-failed": entry(409, false, "The awaited flow ended in failed."),
  "job-not-found": entry(404, false, "No job with this id, or it was pruned."),
  "worker-not-found": entry(404, false, "No live worker has this id or label."),
  "job-changed": entry(409, false, "The job's state does not allow this, or it changed meanwhile."),
  "job-failed": entry(409, false, "The awaited job ended in failed."),
  "job-cancelled": entry(409, false, "The awaited job was cancelled."),
  "job-expired": entry(409, false, "The awaited job met its deadline or its time-to-live."),
  "job-skipped": entry(409, false, "The awaited job was skipped because its join became impossible."),
  "result-expired": entry(410, false, "The awaited job finished, but its result is no longer kept."),
  "version-conflict": entry(409, false, "A compare-and-set met another version."),
  "counter-refused": entry(409, false, "A counter cannot be raised so far, or is no number."),
  "wait-timeout": entry(504, true, "The wait ended before the answer came; the job itself goes on."),
  aborted: entry(499, false, "The caller's AbortSignal fired."),
  "not-in-runs": entry(
    400,
    false,
    "The handler of a durable job used what only plain handlers have; its steps do the same.",
  ),
  "not-durable": entry(409, false, "The job is not durable, so it takes no signals and has no steps."),
  "unknown-signal": entry(404, false, "The job takes no signal of this name."),
  "held-across-wait": entry(
    409,
    false,
    "In a test: a durable run rests while a timer that its handler has set outside of its steps runs.",
  ),
  "step-in-step": entry(400, false, "The code of a step, or an undo, called step itself."),
  "run-begun": entry(
    409,
    false,
    "The run has recorded steps of its present input, so its input cannot be edited.",
  ),
  "undos-open": entry(
    409,
    false,
    "The run has steps with an undo that a new round would forget: end the run first, or drop them on purpose.",
  ),
  "run-ended": entry(409, false, "A step was called after the handler of its run had ended."),
  closed: entry(503, false, "This Millrace, worker or store was closed."),
  "lease-lost": entry(409, false, "The attempt no longer holds its lease; its writes are refused."),
  "simulation-failed": entry(
    500,
    false,
    "A run of simulate broke an invariant; the message names the crash.",
  ),
  "no-handlers": entry(400, false, "A worker was started without a handler, or without a queue to serve."),
  "duplicate-handler": entry(400, false, "Two handlers were given for one job name."),
  "not-committed": entry(
    409,
    true,
    "The job was enqueued in a transaction that has not committed yet, or was rolled back.",
  ),
  "not-in-transaction": entry(
    400,
    false,
    "The connection has no open transaction, or is of another kind or database.",
  ),
  "unknown-store": entry(
    400,
    false,
    "The store URL cannot be read, or has a scheme that Millrace does not know.",
  ),
  "store-unavailable": entry(503, true, "The store could not be reached or could not be opened."),
  "store-busy": entry(503, true, "Another process held the store's write lock for too long."),
  "store-full": entry(
    507,
    true,
    "The disk, the server's memory or the file is full; nothing of the call was written.",
  ),
  "store-read-only": entry(
    503,
    false,
    "The store cannot be written: no right to its file, a replica, or read-only.",
  ),
  "store-corrupt": entry(500, false, "The store's file or database is damaged."),
  "store-replaced": entry(
    503,
    false,
    "The store's file was deleted or replaced while it was open; nothing more is acknowledged.",
  ),
  "store-fenced": entry(
    409,
    false,
    "Another process took the bucket over; this one writes nothing more. Open the store again to work on.",
  ),
  "store-held": entry(409, true, "Another process writes to the bucket, and this one may not take it over."),
  "store-denied": entry(
    403,
    false,
    "The database refuses the user, the password or a right that Millrace needs.",
  ),
  "store-missing": entry(404, false, "The database does not exist, or has no tables of Millrace."),
  "store-too-old": entry(500, false, "The database server is older than Millrace supports."),
  "store-misconfigured": entry(500, false, "A setting of the database makes Millrace's promises impossible."),
  "too-many-connections": entry(503, true, "The database takes no more connections."),
  "driver-missing": entry(500, false, "The store needs a driver that is not installed."),
  "not-a-store": entry(
    400,
    false,
    "The file is not a SQLite database, or the keys under the prefix are another program's.",
  ),
  "partitions-differ": entry(
    409,
    false,
    "The store was made with another number of partitions; it stays for its life.",
  ),
  "route-collision": entry(
    409,
    false,
    "Two queues and names share one route number, by chance; rename one of them.",
  ),
  "schema-newer": entry(409, false, "The store was migrated by a newer Millrace; upgrade this one."),
  "migration-running": entry(503, true, "Another process is migrating the store and did not finish in time."),
  "durability-refused": entry(400, false, "The store cannot give the durability that was asked for."),
  "outcome-unknown": entry(
    503,
    true,
    "The reply was lost or too late: the call may have happened. Repeat it with the same key or id.",
  ),
  "unsupported-runtime": entry(
    501,
    false,
    "Bun runs no handlers in child processes, programs or commands: it lacks what ends them with their worker.",
  ),
  "unsupported-node": entry(500, false, "This Node.js is too old: Millrace needs 22.18 or newer."),
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof errorCatalogue;

/** Whether the failed call had an effect. Most errors come before any write. After a lost reply it is unknown. */
export type ErrorOutcome = "did-not-happen" | "unknown";

const brand: unique symbol = Symbol.for("millrace.error");

export class MillraceError extends Error {
  override readonly name = "MillraceError";
  readonly code: ErrorCode;
  readonly retryable: boolean;
  readonly outcome: ErrorOutcome;
  /**
   * For an enqueue with an unknown outcome: the ids of its jobs, in order; repeat it with `repeatOf`. For a call that
   * was given up: the id of its job.
   */
  readonly ids?: readonly string[];
  readonly [brand] = true;

  constructor(
    code: ErrorCode,
    message: string,
    options: { cause?: unknown; outcome?: ErrorOutcome; ids?: readonly string[] } = {},
  ) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.retryable = errorCatalogue[code].retryable;
    this.outcome = options.outcome ?? (code === "outcome-unknown" ? "unknown" : "did-not-happen");
    if (options.ids !== undefined) this.ids = options.ids;
  }
}

/**
 * Checks the brand instead of the class, so that two copies of the package in one process recognise each other's
 * errors.
 */
export function isMillraceError(value: unknown, code?: ErrorCode): value is MillraceError {
  if (typeof value !== "object" || value === null || !(brand in value)) return false;
  return code === undefined || (value as MillraceError).code === code;
}

/** The same error with the ids of the jobs that its call may have made. */
export function withMintedIds(error: unknown, ids: readonly string[]): unknown {
  if (!isMillraceError(error) || error.outcome !== "unknown" || error.ids !== undefined) return error;
  const { code, message, cause, outcome } = error;
  return new MillraceError(code, message, { ...(cause === undefined ? {} : { cause }), outcome, ids });
}

/** Refuses an option of a later version by name, so that no caller believes it has an effect. */
export function notYetSupported(what: string): MillraceError {
  return new MillraceError("not-yet-supported", `${what} is not supported yet; leave it out.`);
}
