/**
 * Where the calls meet the connection. Calls made in one flush are collected and run as one commit; while one runs
 * elsewhere, or waits for another process's write lock, what arrives joins the next one.
 *
 * Nobody ever sleeps inside SQLite for long: a held lock is an answer, and the commit is tried again after a while by
 * a timer. The lock may be held in this very thread, by the caller's own connection, so a blocking wait would never
 * end.
 */
import { MillraceError } from "../../../model/error.ts";
import type { Platform } from "../../../platform/platform.ts";
import { busyTooLong } from "./errors.ts";
import { nothingFreed } from "./commit.ts";
import type { Call, CallOutcome, CommitOutcome } from "./commit.ts";
import type { StoreClock } from "../../../store/store-clock.ts";

/** Runs one commit: at once in this thread, or in another. */
export interface Runner {
  run(calls: readonly Call[], machineNow: number): CommitOutcome | Promise<CommitOutcome>;
  close(): void | Promise<void>;
}

export interface Executor {
  call(operation: Call["operation"], request: unknown): Promise<unknown>;
  close(): Promise<void>;
}

/** Where a commit must have landed, beside the file, before its callers are answered: the bucket store's log. */
export interface Landing {
  /** Why no call may be made now, or null. */
  refusal(): MillraceError | null;
  /**
   * Takes in what the commit wrote, before anybody is answered. @returns by the number of a call what its answer waits
   * for; null for nothing.
   */
  take(calls: readonly Call[], commit: CommitOutcome): (call: number) => Promise<void> | null;
  /** What the store answers when a call is refused and an answer says it better than an error; else undefined. */
  answerRefused(call: Call): unknown;
  close(): Promise<void>;
}

export interface ExecutorOptions {
  readonly runner: Runner;
  readonly platform: Platform;
  readonly clock: StoreClock;
  readonly path: string;
  readonly busyTimeoutMs: number;
  /** After each commit, before anybody is answered. */
  readonly onCommitted: (commit: CommitOutcome) => void;
  readonly landing?: Landing | null;
}

interface Waiting extends Call {
  readonly sinceUs: number;
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: unknown) => void;
}

const commitCallsMax = 256;
const retryMs = { first: 1, max: 25 };

export function openExecutor({
  runner,
  platform,
  clock,
  path,
  busyTimeoutMs,
  onCommitted,
  landing = null,
}: ExecutorOptions): Executor {
  let waiting: Waiting[] = [];
  let isBusy = false;
  let tries = 0;
  let closing: Promise<void> | null = null;
  let onIdle: (() => void) | null = null;

  const flush = (): void => {
    const calls = waiting.slice(0, commitCallsMax);
    waiting = waiting.slice(commitCallsMax);
    try {
      const commit = runner.run(calls, clock.now());
      if (commit instanceof Promise)
        commit.then(
          (outcome) => settle(calls, outcome),
          (error: unknown) => fail(calls, error),
        );
      else settle(calls, commit);
    } catch (error) {
      fail(calls, error);
    }
  };

  const fail = (calls: readonly Waiting[], error: unknown): void => {
    settle(calls, {
      outcomes: calls.map((): CallOutcome => ({ kind: "error", error })),
      hints: [],
      emitted: [],
      now: clock.now(),
      freed: nothingFreed,
    });
  };

  const settle = (calls: readonly Waiting[], commit: CommitOutcome): void => {
    clock.observe(commit.now);
    const waitOf = landing?.take(calls, commit);
    if (commit.emitted.length > 0 || commit.hints.length > 0) onCommitted(commit);
    const again: Waiting[] = [];
    const now = platform.monotonicUs();
    for (const [index, call] of calls.entries()) {
      const outcome = commit.outcomes[index] as CallOutcome;
      if (outcome.kind === "answer") {
        const landed = waitOf?.(index) ?? null;
        if (landed === null) call.resolve(outcome.answer);
        else landed.then(() => call.resolve(outcome.answer), call.reject);
      } else if (outcome.kind === "error") call.reject(outcome.error);
      else if (now - call.sinceUs >= busyTimeoutMs * 1000) call.reject(busyTooLong(path, busyTimeoutMs));
      else again.push(call);
    }
    waiting = [...again, ...waiting];
    if (waiting.length === 0) {
      isBusy = false;
      tries = 0;
      onIdle?.();
    } else if (again.length === 0) {
      tries = 0;
      queueMicrotask(flush);
    } else {
      tries += 1;
      const delayMs =
        Math.min(retryMs.max, retryMs.first * 2 ** Math.min(tries, 10)) * (0.5 + platform.random());
      platform.setTimer(delayMs, flush, true);
    }
  };

  return {
    call(operation, request) {
      if (closing !== null) return Promise.reject(new MillraceError("closed", "This store was closed."));
      const refusal = landing?.refusal() ?? null;
      if (refusal !== null) {
        const answer = landing?.answerRefused({ operation, request });
        return answer === undefined ? Promise.reject(refusal) : Promise.resolve(answer);
      }
      return new Promise((resolve, reject) => {
        waiting.push({ operation, request, sinceUs: platform.monotonicUs(), resolve, reject });
        if (isBusy) return;
        isBusy = true;
        queueMicrotask(flush);
      });
    },
    close() {
      closing ??= new Promise<void>((resolve) => {
        if (isBusy) onIdle = resolve;
        else resolve();
      }).then(async () => {
        try {
          await landing?.close();
        } finally {
          await runner.close();
        }
      });
      return closing;
    },
  };
}
