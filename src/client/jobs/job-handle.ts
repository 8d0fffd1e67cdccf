/** What an enqueue returns: the job's id, and a way to wait for its end from any process. */
import type { Needs } from "../../engine/services.ts";
import type { Results } from "../../engine/calls/results.ts";
import { durationMs } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { readAttemptLog } from "../../model/job/attempt-log.ts";
import type { ErrorRecord } from "../../model/job/attempt-log.ts";
import { MillraceError } from "../../model/error.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import type { TerminalState } from "../../model/job/job-state.ts";
import { checkOptions } from "../../model/option.ts";
import type { SubmitHow } from "../../store/operations.ts";
import type { JobRecord } from "../../store/records.ts";
import { checkIsJob } from "./check-is-job.ts";
import type { CancelAnswer, CancelOptions } from "./cancel-jobs.ts";
import type { Jobs } from "./jobs.ts";

export interface WaitForOptions {
  /** After this time the wait ends with `wait-timeout`; the job goes on. Default: no limit. */
  timeout?: Duration;
  signal?: AbortSignal;
}

export type Peek<Result> =
  | { readonly status: "pending" }
  /** The job completed without a result, or its result is not kept. */
  | { readonly status: "none" }
  /** The job was pruned, so whether it completed is no longer known. */
  | { readonly status: "expired" }
  | { readonly status: "value"; readonly value: Result }
  | {
      readonly status: "ended";
      readonly state: Exclude<TerminalState, "completed">;
      readonly reason: string | null;
    };

/**
 * The fields that all handles of one enqueue share. A bulk makes thousands of handles, so each has few fields of its
 * own.
 */
export interface HandleSurroundings {
  readonly needs: Needs<"coder" | "reads" | "platform" | "policies">;
  readonly jobs: Jobs;
  readonly results: Results;
  /** Whether the job is made only with the caller's commit. */
  readonly isInTransaction: boolean;
}

export class JobHandle<Result = unknown> {
  readonly id: string;
  /** What the enqueue did; null for a handle made from an id. */
  readonly how: SubmitHow | null;
  /** The name of the job that the result's type belongs to; null if any job will do. */
  readonly #name: string | null;
  readonly #around: HandleSurroundings;

  constructor(around: HandleSurroundings, id: string, name: string | null, how: SubmitHow | null) {
    this.#around = around;
    this.id = id;
    this.how = how;
    this.#name = name;
  }

  /** True if this enqueue made the job, false if a job with the same key or id existed. */
  get created(): boolean {
    return this.how === "created";
  }

  /**
   * Waits for the job's end. If the job did not complete, rejects with a MillraceError whose code says how it ended.
   */
  async result(options: WaitForOptions = {}): Promise<Result> {
    checkOptions(options, "result", ["timeout", "signal"]);
    const timeoutMs = options.timeout === undefined ? null : durationMs(options.timeout, "result: timeout");
    const check = (found: JobRecord): void => checkIsJob(found, this.#name);
    const signal = options.signal ?? null;
    const record = await this.#around.results.wait(this.id, { timeoutMs, signal, check });
    if (record === null && this.#around.isInTransaction) {
      throw new MillraceError(
        "not-committed",
        `There is no job ${JSON.stringify(this.id)}: the transaction it was enqueued in has not committed, or was rolled back. Ask for the result after the commit.`,
      );
    }
    if (record === null) throw noSuchJob(this.id);
    return resultOf(this.#around.needs, record, this.#name) as Result;
  }

  /** Cancels the job. @returns what became of it. */
  cancel(options?: string | CancelOptions): Promise<CancelAnswer> {
    return this.#around.jobs.cancel(this.id, options);
  }

  /** The job's present state and result, without waiting for its end. */
  async peek(): Promise<Peek<Result>> {
    const record = await this.#around.needs.reads.add(this.id);
    if (record === null) return { status: "expired" };
    checkIsJob(record, this.#name);
    if (!isTerminal(record.state)) return { status: "pending" };
    if (record.state !== "completed") return { status: "ended", state: record.state, reason: record.reason };
    if (record.result === null) return { status: "none" };
    return { status: "value", value: this.#around.needs.coder.decode(record.result) as Result };
  }
}

/**
 * @returns the result of an ended job; undefined if it has none. Throws if its time is over. @param name that of the
 * definition of the result's type.
 */
export function resultOf(
  needs: Needs<"coder" | "platform" | "policies">,
  record: JobRecord,
  name: string | null,
): unknown {
  checkIsJob(record, name);
  if (record.state !== "completed") throw endError(record);
  if (record.result !== null) return needs.coder.decode(record.result);
  const { keepsResult } = needs.policies.read(record.policy, record.queue);
  const goneAt = typeof keepsResult === "number" ? (record.endedAt ?? 0) + keepsResult : Infinity;
  if (needs.platform.now() < goneAt) return undefined;
  throw resultExpired(record);
}

export function resultExpired({ id, name }: JobRecord): MillraceError {
  return new MillraceError("result-expired", `The result of the job ${id} (${name}) is not kept any more.`);
}

export function noSuchJob(id: string): MillraceError {
  return new MillraceError(
    "result-expired",
    `There is no job ${JSON.stringify(id)}: it was pruned, deleted or never made.`,
  );
}

const codes = {
  failed: "job-failed",
  cancelled: "job-cancelled",
  expired: "job-expired",
  skipped: "job-skipped",
} as const;

function endError(record: JobRecord): MillraceError {
  const state = record.state as keyof typeof codes;
  const last = readAttemptLog(record.attempts).entries.at(-1)?.error;
  const detail = last === undefined ? "" : `: ${last.name}: ${last.message}`;
  return new MillraceError(
    codes[state],
    `The job ${record.id} (${record.name}) ended as ${state} (${record.reason})${detail}`,
    { cause: last === undefined ? undefined : thrownAs(last) },
  );
}

/** What an attempt threw, as an Error again: with the name, the message and the stack that it had in its worker. */
export function thrownAs({ name, message, stack, code, cause }: ErrorRecord): Error {
  const error = new Error(message, cause === undefined ? undefined : { cause: thrownAs(cause) });
  const own = { name, ...(stack === undefined ? {} : { stack }), ...(code === undefined ? {} : { code }) };
  for (const [key, value] of Object.entries(own))
    Object.defineProperty(error, key, { value, configurable: true, writable: true });
  return error;
}
