/**
 * Makes `step` for one stay of a run. Each method names its call by the scope in which it is made, plans what the call
 * does, and asks the execution for it. The scope of a branch or an item follows its asynchronous code
 * (AsyncLocalStorage), so calls after an await belong to it as well. The code of a step and an undo has a place of its
 * own, in which calls are refused: a replay does not run that code, so it would not find its calls.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { createHash } from "node:crypto";
import type { Child } from "../../engine/durable/children.ts";
import type { Flow } from "../../engine/flows/flow.ts";
import { readLimits } from "../../engine/limits/limit-definition.ts";
import type { AnyLimitUse, Limit } from "../../engine/limits/limit-definition.ts";
import type { AnyJob } from "../../engine/submit/job-definition.ts";
import { branchPrefix, CallScope, itemPrefix } from "../../model/durable/call-key.ts";
import { derivedUuid, stepIdempotencyKey } from "../../model/durable/derived-id.ts";
import type { RunName } from "../../model/durable/derived-id.ts";
import { journalLimits } from "../../model/durable/journal-entry.ts";
import type { CallKind } from "../../model/durable/journal-entry.ts";
import { defaultStepRetry, readStepRetry, stepRetryDelayMs } from "../../model/durable/step-retry.ts";
import { describeError } from "../../model/job/attempt-log.ts";
import type { Due } from "../../model/job/change.ts";
import type { StepRetry } from "../../model/durable/step-retry.ts";
import { durationMs } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import type { BackoffSources } from "../../model/job/retry-policy.ts";
import { isMillraceError, MillraceError } from "../../model/error.ts";
import { checkName } from "../../model/name.ts";
import { readInstant } from "../../model/instant.ts";
import { checkBoolean, checkOptions, checkWhole, invalidOption } from "../../model/option.ts";
import type { Platform } from "../../platform/platform.ts";
import type { Usage } from "../run/usage.ts";
import { controlOf } from "../control.ts";
import { StepFailed, WaitTimedOut } from "./durable-errors.ts";
import type { FramePart } from "../output/frame-writer.ts";
import { LiveCall } from "./live-call.ts";
import type { CallPlan } from "./live-call.ts";
import type { RunExecution } from "./run-execution.ts";
import type { RunJournal, Start } from "./run-journal.ts";
import type { RunCodec } from "./run-settings.ts";
import type { ApprovalOptions, Step, StepContext, WaitOptions } from "./step.ts";

interface Place {
  readonly owner: StepCalls;
  /** null inside the code of a step, which makes no calls. */
  readonly scope: CallScope | null;
  /** The call whose code runs here; absent for other code. */
  readonly call?: string;
}

const places = new AsyncLocalStorage<Place>();
/** Whether this is the code of a step, or an undo, and not that of the handler around it. */
export const isStepCode = (): boolean => places.getStore()?.scope === null;
const digest = (text: string): Uint8Array => createHash("sha256").update(text).digest();

export interface StepParts {
  readonly run: RunName;
  readonly journal: RunJournal;
  readonly codec: RunCodec;
  readonly platform: Pick<Platform, "setTimer">;
  readonly backoffs: BackoffSources;
  /** The input of the next round, as it is stored. */
  readonly encodeInput: (input: unknown) => string;
  /** Takes the permits of a step. */
  readonly acquire: AcquirePermit;
  readonly usage: Usage;
  readonly input: unknown;
  /** Whether the job takes this signal. */
  readonly takes: (signal: string) => boolean;
  /** The id of a job that a call starts. */
  readonly childId: (call: string) => string;
}

/** Waits for permits of a limit, until the signal fires. */
export type AcquirePermit = (
  limit: Limit,
  options: {
    readonly key?: string;
    readonly weight: number;
    readonly signal: AbortSignal;
    readonly wait: Duration;
  },
) => Promise<AsyncDisposable>;

/** A step waits for its permits rather than fail; who cancels the run ends the wait. */
const permitWait = "30d";

/** Thrown into the caller's transaction so that it rolls back. */
class AlreadyRecorded extends Error {
  override readonly name = "AlreadyRecorded";
}

export type AnyStep = Step<Record<string, unknown>>;

export class StepCalls implements AnyStep {
  readonly #execution: RunExecution;
  readonly #parts: StepParts;
  readonly #root = new CallScope();
  #uuids = 0;

  constructor(execution: RunExecution, parts: StepParts) {
    this.#execution = execution;
    this.#parts = parts;
  }

  readonly run: AnyStep["run"] = (name, work, options = {}) => {
    const what = `step.run ${JSON.stringify(name)}`;
    const { undo, timeout } = checkOptions(options, what, stepOptions) as typeof options;
    checkFunction(work, `${what}: the code`);
    if (undo !== undefined) checkFunction(undo, `${what}: undo`);
    const timeoutMs = timeout === undefined ? null : durationMs(timeout, `${what}: timeout`);
    const retry = readStepRetry(options.retry, `${what}: retry`);
    const uses = options.limits === undefined ? [] : readLimits(options.limits, `${what}: limits`);
    return this.#ask("run", name, (key) => ({
      work: (attempt, signal) =>
        uses.length === 0
          ? this.#work(key, work, timeoutMs, attempt, signal)
          : this.#within(uses, signal, () => this.#work(key, work, timeoutMs, attempt, signal)),
      retryDelayMs: this.#retryDelay(retry),
      ...(undo === undefined ? {} : { undo: (value: unknown) => this.#inside(() => undo(value as never)) }),
    })) as ReturnType<typeof work> & Promise<never>;
  };

  #retryDelay(retry: StepRetry): NonNullable<CallPlan["retryDelayMs"]> {
    const { backoffs } = this.#parts;
    return (attempt, error) => {
      const control = controlOf(error);
      if (control?.kind === "unrecoverable") return null;
      // Whatever the retries of the step: it waits for the period of a budget to end.
      if (control?.kind === "snooze" && isMillraceError(error, "budget-spent")) return control.delayMs;
      const delayMs = stepRetryDelayMs(retry, attempt, describeError(error), backoffs);
      return delayMs === null || control?.kind !== "retry-after"
        ? delayMs
        : dueInMs(control.due, this.#execution.storeTime);
    };
  }

  /** Takes the permits in the order of the limits' names, so that two steps never wait for each other. */
  async #within<Result>(
    uses: readonly AnyLimitUse[],
    signal: AbortSignal,
    work: () => Promise<Result>,
  ): Promise<Result> {
    const { acquire, input } = this.#parts;
    const permits: AsyncDisposable[] = [];
    try {
      for (const { limit, weight, key } of uses) {
        const own = typeof key === "function" ? (key as (input: unknown) => string)(input) : key;
        const named = own === null ? {} : { key: own };
        permits.push(await acquire(limit, { ...named, weight, signal, wait: permitWait }));
      }
      return await work();
    } finally {
      for (const permit of permits.toReversed()) await permit[Symbol.asyncDispose]();
    }
  }

  async #work<Result>(
    key: string,
    work: (context: StepContext) => Result | Promise<Result>,
    timeoutMs: number | null,
    attempt: number,
    signal: AbortSignal,
  ): Promise<Result> {
    const { run, usage } = this.#parts;
    const context = { idempotencyKey: stepIdempotencyKey(run, key), attempt, signal, usage };
    if (timeoutMs === null) return this.#inside(() => work(context), key);
    const ended = new AbortController();
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = this.#parts.platform.setTimer(timeoutMs, () => {
      const error = new Error(`The step ran longer than its timeout of ${timeoutMs} ms.`);
      ended.abort(error);
      reject(error);
    });
    signal.addEventListener("abort", () => timer.cancel(), { once: true });
    const timed = { ...context, signal: AbortSignal.any([signal, ended.signal]) };
    try {
      return await Promise.race([this.#inside(() => work(timed), key), late]);
    } finally {
      timer.cancel();
    }
  }

  /** Runs code of a step, which makes no calls. */
  #inside<Result>(code: () => Result, call?: string): Result {
    return places.run({ owner: this, scope: null, ...(call === undefined ? {} : { call }) }, code);
  }

  /** The step whose code runs now, and one object for as long as it does; null outside of steps. */
  stepNow(): FramePart | null {
    const place = places.getStore();
    return place?.owner !== this || place.call === undefined ? null : { part: place.call, life: place };
  }

  readonly runIn: AnyStep["runIn"] = (name, begin, work) => {
    type Result = Awaited<ReturnType<typeof work>>;
    const { journal, codec, run, usage } = this.#parts;
    checkFunction(begin, `step.runIn ${JSON.stringify(name)}: begin`);
    checkFunction(work, `step.runIn ${JSON.stringify(name)}: the code`);
    return this.#ask("run-in", name, (key) => ({
      retryDelayMs: this.#retryDelay(defaultStepRetry),
      work: async (attempt, signal) => {
        let recorded: { readonly value: string | null } | null = null;
        const context = { idempotencyKey: stepIdempotencyKey(run, key), attempt, signal, usage };
        try {
          return await begin(async (connection) => {
            const value = await this.#inside(() => work(connection, context), key);
            const answer = await journal.commitSlip(connection, { call: key, value: codec.encode(value) });
            if (answer.kind === "ok") return value;
            if (answer.kind === "recorded") recorded = answer;
            throw new AlreadyRecorded(
              "Another attempt of this run has committed this step, or the lease is lost.",
            );
          });
        } catch (error) {
          if (recorded === null) throw error;
          return codec.decode((recorded as { readonly value: string | null }).value) as Result;
        }
      },
    })) as Promise<never>;
  };

  sleep(name: string, duration: Duration): Promise<void> {
    const endsInMs = durationMs(duration, `step.sleep ${JSON.stringify(name)}`);
    return this.#ask("sleep", name, () => ({ endsInMs })) as Promise<void>;
  }

  sleepUntil(name: string, at: Date): Promise<void> {
    const endsAt = readInstant(at, `step.sleepUntil ${JSON.stringify(name)}`);
    return this.#ask("sleep", name, () => ({ endsAt })) as Promise<void>;
  }

  readonly waitFor: AnyStep["waitFor"] = (
    signal: string,
    options?: Omit<WaitOptions<unknown>, "onTimeout"> & { onTimeout?: "throw" | "return" },
  ) => {
    const what = `step.waitFor ${JSON.stringify(signal)}`;
    this.#checkTakes(signal);
    const { timeout, key, where, onTimeout } = checkOptions(options ?? {}, what, waitOptions) as Exclude<
      typeof options,
      undefined
    >;
    if (where !== undefined) checkFunction(where, `${what}: where`);
    if (onTimeout !== undefined && onTimeout !== "throw" && onTimeout !== "return")
      throw invalidOption(`${what}: onTimeout must be "throw" or "return".`);
    return this.#ask("wait", signal, () => ({
      signal,
      ...(key === undefined ? {} : { businessKey: checkName(key, `${what}: key`) }),
      ...(where === undefined ? {} : { where }),
      ...(timeout === undefined
        ? {}
        : timeout instanceof Date
          ? { endsAt: readInstant(timeout, `${what}: timeout`) }
          : { endsInMs: durationMs(timeout, `${what}: timeout`) }),
      arrived: ({ at, source }, value) => ({ kind: "arrived", value, at: new Date(at), source }),
      rang: () =>
        onTimeout === "return"
          ? { kind: "value", value: { kind: "timed-out" } }
          : { kind: "error", error: new WaitTimedOut(signal) },
    })) as Promise<never>;
  };

  readonly approval: AnyStep["approval"] = (signal, options: ApprovalOptions<unknown>) => {
    const what = `step.approval ${JSON.stringify(signal)}`;
    this.#checkTakes(signal);
    const {
      of = 1,
      timeout,
      approves = isOk,
      escalate,
    } = checkOptions(options, `${what}: its options`, approvalOptions) as unknown as typeof options;
    checkFunction(approves, `${what}: approves`);
    return this.#ask("approval", signal, (key) => ({
      signal,
      where: approves,
      needed: checkWhole(of, `${what}: of`, 1, 100),
      endsInMs: durationMs(timeout, `${what}: timeout`),
      ...(escalate === undefined ? {} : { escalation: this.#startOf(`escalate:${key}`, escalate, false) }),
      rang: () => ({ kind: "value", value: { approved: false, answers: [], timedOut: true } }),
    })) as Promise<never>;
  };

  readonly race: AnyStep["race"] = (branches) => {
    const names = Object.keys(branches);
    if (names.length === 0) throw invalidOption("step.race: give it at least one branch.");
    for (const name of names)
      checkFunction(branches[name as keyof typeof branches], `step.race: the branch ${JSON.stringify(name)}`);
    let asked: LiveCall | null = null;
    const promise = this.#ask(
      "race",
      "race",
      (key) => ({ branches: new Map(names.map((name) => [name, branchPrefix(key, name)])) }),
      (call) => (asked = call),
    );
    const call = asked as LiveCall | null;
    if (call === null) return promise as Promise<never>;
    for (const name of names) {
      const scope = new CallScope(branchPrefix(call.key, name));
      const ended = (kind: "value" | "error") => (result: unknown) =>
        this.#execution.branchEnded(
          call,
          name,
          kind === "value" ? { kind, value: { winner: name, value: result } } : { kind, error: result },
        );
      const branch = branches[name as keyof typeof branches];
      const began = places.run({ owner: this, scope }, async () => branch());
      void began.then(ended("value"), ended("error"));
    }
    return promise as Promise<never>;
  };

  readonly each: AnyStep["each"] = async (name, items, key, work, options = {}) => {
    const what = `step.each ${JSON.stringify(name)}`;
    const { concurrency = Infinity } = checkOptions(options, what, ["concurrency"]) as typeof options;
    if (concurrency !== Infinity)
      checkWhole(concurrency, `${what}: concurrency`, 1, journalLimits.entriesMax);
    checkFunction(key, `${what}: the key`);
    checkFunction(work, `${what}: the code`);
    const scope = this.#scope;
    const eachKey = scope.nextKey("each", checkName(name, "step.each: name"));
    const keys = items.map((item) => checkName(key(item), "step.each: key"));
    if (new Set(keys).size < keys.length) throw invalidOption(`${what}: two items have one key.`);
    const results: Awaited<ReturnType<typeof work>>[] = [];
    let next = 0;
    const lane = async (): Promise<void> => {
      while (next < items.length) {
        const at = next++;
        const own = new CallScope(itemPrefix(eachKey, keys[at] as string));
        try {
          results[at] = await places.run({ owner: this, scope: own }, () => work(items[at] as never, this));
        } catch (error) {
          next = items.length;
          throw error;
        }
      }
    };
    await Promise.all(Array.from({ length: Math.min(items.length, concurrency) }, lane));
    return results;
  };

  readonly enqueue: AnyStep["enqueue"] = (job, input, options) =>
    this.#ask("enqueue", job.name, (key) => ({
      start: this.#startOf(key, { job, input, options: options as Child["options"] }, false),
    })) as Promise<string>;

  readonly invoke = ((job: AnyJob | Flow, input: unknown, options: Child["options"]) =>
    this.#ask("invoke", job.name, (key) => ({
      start: this.#startOf(key, { job, input, options }, true),
    }))) as AnyStep["invoke"];

  #startOf(call: string, submission: Child, isAwaited: boolean): Start {
    return { call, id: this.#parts.childId(call), submission, isAwaited };
  }

  patched(name: string): boolean {
    this.#refuseInside();
    return this.#execution.patched(checkName(name, "step.patched: name"));
  }

  now(): Date {
    return new Date(this.#execution.now);
  }

  uuid(): string {
    this.#refuseInside();
    return derivedUuid(this.#parts.run, ++this.#uuids, digest);
  }

  continueWith(input: unknown, options: { dropUndos?: boolean } = {}): never {
    this.#refuseInside();
    const what = "step.continueWith";
    const { dropUndos = false } = checkOptions(options, what, ["dropUndos"]) as typeof options;
    if (!checkBoolean(dropUndos, `${what}: dropUndos`) && this.#execution.hasUndo)
      throw new MillraceError(
        "undos-open",
        "The next round would forget the undos of this one. If its steps are never to be undone, say so: step.continueWith(input, { dropUndos: true }).",
      );
    // An input that cannot be stored is refused here, where somebody named it.
    this.#execution.continueWith(this.#parts.encodeInput(input));
    // The run is over: a handler that catches this gets no answer from any further step.
    throw new MillraceError("run-ended", "The run goes on with a new round.");
  }

  get #scope(): CallScope {
    this.#refuseInside();
    const here = places.getStore();
    return here?.owner === this && here.scope !== null ? here.scope : this.#root;
  }

  #refuseInside(): void {
    const here = places.getStore();
    if (here?.owner !== this || here.scope !== null) return;
    throw new MillraceError(
      "step-in-step",
      "The code of a step called step: call it in the handler, and pass what it returned.",
    );
  }

  /** A wait for any other signal would never end. */
  #checkTakes(signal: string): void {
    if (this.#parts.takes(signal)) return;
    throw new MillraceError(
      "unknown-signal",
      `The handler waits for the signal ${JSON.stringify(signal)}, which the definition of its job does not name.`,
    );
  }

  #ask(
    kind: CallKind,
    name: string,
    plan: (key: string) => CallPlan,
    asks?: (call: LiveCall) => void,
  ): Promise<unknown> {
    const scope = this.#scope;
    if (this.#execution.isOver) return this.#tooLate(kind, name);
    const key = scope.nextKey(kind, checkName(name, `step.${kind}: name`));
    const call = new LiveCall(key, kind, { failed: (cause) => new StepFailed(key, cause), ...plan(key) });
    asks?.(call);
    this.#execution.ask(call);
    return call.promise;
  }

  /**
   * Frames of a run that was suspended are abandoned: what still runs in them, such as a timer, gets no answer. A
   * promise of its own each time, because one for all would keep every frame that awaits it.
   */
  #tooLate(kind: CallKind, name: string): Promise<unknown> {
    if (!this.#execution.hasHandlerEnded) return new Promise(() => undefined);
    const error = new MillraceError(
      "run-ended",
      `step.${kind} ${JSON.stringify(name)} came after the handler had ended.`,
    );
    const refused = Promise.reject(error);
    // Nobody may be there to hear it, and that must not end the process.
    refused.catch(() => undefined);
    return refused;
  }
}

const stepOptions = ["retry", "timeout", "limits", "undo"];
const waitOptions = ["timeout", "key", "where", "onTimeout"];
const approvalOptions = ["of", "timeout", "approves", "escalate"];

function checkFunction(value: unknown, what: string): void {
  if (typeof value !== "function") throw invalidOption(`${what} must be a function.`);
}

function dueInMs(due: Due, now: number): number {
  return "inMs" in due ? due.inMs : Math.max(0, due.at - now);
}

function isOk(value: unknown): boolean {
  return typeof value === "object" && value !== null && (value as { ok?: unknown }).ok === true;
}
