/**
 * What a handler gets: its input, and everything it may do for its job. Every write carries the attempt's fence.
 * Members are getters, so a handler pays only for those it uses. Every function is bound, so that `({ input, progress
 * }) => …` works.
 */
import { openTexts } from "../../codec/sealed-texts.ts";
import { redact } from "../../codec/redact.ts";
import { durationMs } from "../../model/duration.ts";
import type { CallersConnection } from "../../store/callers-connection.ts";
import type { Duration } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import { placeOfId } from "../../model/flow/flow-meta.ts";
import { readMeta, viewMadeBy } from "../../model/job/job-meta.ts";
import type { PublishedTo } from "../../model/job/job-meta.ts";
import { checkName } from "../../model/name.ts";
import type { JobDefinition } from "../../engine/submit/job-definition.ts";
import type { Needs } from "../../engine/services.ts";
import { kvKind } from "../../engine/docs/kv.ts";
import type { LogFields } from "../../engine/log/logger.ts";
import { planGrowth } from "../../engine/flows/grow-flow.ts";
import { describeError, roundOf } from "../../model/job/attempt-log.ts";
import { checkNumber } from "../../model/option.ts";
import type { LeaseRef } from "../../store/records.ts";
import { AttemptUsage } from "./usage.ts";
import type { Usage } from "./usage.ts";
import type { Attempt } from "./attempt.ts";
import { completed } from "../settle/attempt-end.ts";
import { contextLimits } from "./context-limits.ts";
import type { ContextLimits, WorkerLimits } from "./context-limits.ts";
import { ContextFlow } from "./context-flow.ts";
import { EffectsDraft } from "./effects-draft.ts";
import { effectsScope, tracedGrowth } from "./effects-scope.ts";
import type { EffectsScope } from "./effects-scope.ts";
import { extendByHand } from "../lease/extend-leases.ts";
import { FrameWriter } from "../output/frame-writer.ts";
import type { FrameWriterOptions } from "../output/frame-writer.ts";
import type { JobStream } from "../output/job-stream.ts";
import { encodeResult, shownError } from "./payloads.ts";

export type JobContextNeeds = Needs<
  | "store"
  | "platform"
  | "coder"
  | "telemetry"
  | "log"
  | "repeated"
  | "ids"
  | "limits"
  | "budgets"
  | "records"
  | "outputs"
  | "reads"
  | "planner"
> & { readonly workerLimits: WorkerLimits };

/** Pass it to outside systems, so that they can refuse a late attempt. */
export interface Fence {
  /** Grows with every claim of the job. */
  readonly value: number;
  /** Unique per claim. Each attempt has another one, so it is no idempotency key. */
  readonly key: string;
}

export interface JobLog {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

/** What the worker's own code reads of a context; not for applications. */
export interface ContextInside {
  readonly needs: Needs<"store" | "platform" | "log">;
  readonly attempt: Attempt;
  /** Collects effects. @param mintId makes the ids of follow-ups. */
  scope(which: "effects" | "failureEffects", mintId?: () => string): EffectsScope;
}

const logCharsMax = 8000;
const recordCharsMax = 64 * 1024;

/** A result may be omitted if the definition allows none. Written as a method, so that any context is a JobContext. */
type CompleteIn<Returned> = {
  call(
    connection: CallersConnection,
    ...result: undefined extends Returned ? [result?: Returned] : [result: Returned]
  ): Promise<void>;
}["call"];

export class JobContext<Out = unknown, Returned = unknown> implements EffectsScope {
  readonly input: Out;
  readonly #attempt: Attempt;
  readonly #definition: JobDefinition;
  readonly #needs: JobContextNeeds;
  #flow: ContextFlow | null = null;
  /** Set after `completeIn` has completed the job: later effects would be lost. */
  #isCompleted = false;

  constructor(needs: JobContextNeeds, attempt: Attempt, definition: JobDefinition, input: Out) {
    this.#needs = needs;
    this.#attempt = attempt;
    this.#definition = definition;
    this.input = input;
  }

  static insideOf(context: JobContext): ContextInside {
    return {
      needs: context.#needs,
      attempt: context.#attempt,
      scope: (which, mintId) => context.#scope(which, mintId),
    };
  }

  get id(): string {
    return this.#attempt.job.id;
  }

  get name(): string {
    return this.#definition.name;
  }

  get queue(): string {
    return this.#attempt.title.queue;
  }

  /** When the job was enqueued, by the store's clock. */
  get createdAt(): Date {
    return new Date(this.#attempt.job.createdAt);
  }

  /** The id of the worker that runs the job, as in lists and attempt records. */
  get worker(): string {
    return this.#attempt.owner;
  }

  /** The name of the machine on which the worker runs. */
  get host(): string {
    return this.#needs.platform.hostName;
  }

  /** What `jobs.runNow(id, { attach })` woke the job with last; undefined for nothing. */
  get attached(): unknown {
    const { attached } = readMeta(this.#attempt.job.meta);
    return attached === undefined ? undefined : this.#needs.coder.decode(attached);
  }

  /** Counts from 1. */
  get attempt(): number {
    return this.#attempt.job.attempt;
  }

  get isLastAttempt(): boolean {
    return this.#attempt.job.attempt >= this.#attempt.policy.attempts;
  }

  get headers(): Readonly<Record<string, string>> {
    return openTexts(this.#needs.coder, readMeta(this.#attempt.job.meta).headers);
  }

  get trace(): Readonly<Record<string, string>> {
    return readMeta(this.#attempt.job.meta).trace ?? {};
  }

  /** The schedule that made the job, and the tick that it stands for; null for other jobs. */
  get schedule(): { readonly name: string; readonly tick: Date | null } | null {
    return viewMadeBy(readMeta(this.#attempt.job.meta).schedule);
  }

  /** The topic of the publication and the subscription for which the job was made; null for other jobs. */
  get topic(): PublishedTo | null {
    return readMeta(this.#attempt.job.meta).topic ?? null;
  }

  /**
   * The flow of which the job is a node; null for other jobs. Nodes that the handler adds are added to the flow in the
   * same step as the job's completion. This node has completed by then, so they wait for nothing unless they name other
   * nodes.
   */
  get flow(): ContextFlow | null {
    const { job } = this.#attempt;
    if (placeOfId(job.id) === null) return null;
    this.#flow ??= new ContextFlow(job.id, (added) => {
      this.#checkEffect("flow");
      const draft = (this.#attempt.effects ??= new EffectsDraft());
      const within = job.id.slice(0, job.id.lastIndexOf("."));
      draft.addGrowth(async () =>
        tracedGrowth(
          this.#needs,
          this.#attempt,
          await planGrowth(this.#needs, added, within, { by: job, isAgain: roundOf(job.attempts) > 1 }),
        ),
      );
    });
    return this.#flow;
  }

  /** Fires once. Its reason is an AttemptAborted: cancel, timeout, deadline, lease-lost or shutdown. */
  get signal(): AbortSignal {
    return this.#attempt.signal;
  }

  /**
   * The same for every attempt of a round, on any worker: for payments and other systems that must act once. A replay
   * that resets the attempts opens a new round with another key.
   */
  get idempotencyKey(): string {
    const { id, attempts } = this.#attempt.job;
    return `${id}:${roundOf(attempts)}`;
  }

  get fence(): Fence {
    const { id, seq, fence } = this.#attempt.job;
    return { value: fence, key: `${id}:${seq}:${fence}` };
  }

  /** Lines that are kept with the job and can be read while it runs and afterwards. */
  get log(): JobLog {
    const write = (level: string) => (message: string, fields?: LogFields) =>
      this.#writeLog(level, message, fields);
    return { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
  }

  /** The progress: a number from 0 to 1, with an optional message and data. Only the newest is kept. */
  get progress(): (value: number, message?: string, data?: unknown) => void {
    return (value, message, data) => {
      checkNumber(value, "progress");
      const shown = { value, message, data: redact(data, this.#attempt.policy.redact) };
      this.#record({ progress: this.#encode(shown, { value, message: String(message) }) });
    };
  }

  /** What the attempt uses of budgets. */
  get usage(): Usage {
    return new AttemptUsage(this.#needs, this.#attempt);
  }

  /** The output of the job, frame by frame, which readers in any process follow live: `mill.frames(id)`. */
  get stream(): JobStream {
    return (this.#attempt.frames ??= this.openStream());
  }

  protected openStream(options: Omit<FrameWriterOptions, "keep"> = {}): FrameWriter {
    const keep = this.#definition.framesKept;
    return new FrameWriter(this.#needs, this.#attempt, { keep, ...options });
  }

  /** Extends the lease by hand, for work that blocks the event loop for longer than the lease. */
  get extend(): (lease: Duration) => Promise<void> {
    return (lease) => extendByHand(this.#needs, this.#attempt, durationMs(lease, "extend"));
  }

  /** Permits of limits for a part of the work, and a throttle of one of them. */
  get limits(): ContextLimits {
    return contextLimits(this.#needs.workerLimits, () => this.signal);
  }

  get enqueue(): EffectsScope["enqueue"] {
    return this.#scope("effects").enqueue;
  }

  get submit(): EffectsScope["submit"] {
    return this.#scope("effects").submit;
  }

  /** Reads see the store and the handler's own writes; writes are applied with the completion. */
  get kv(): EffectsScope["kv"] & { get<Value = unknown>(key: string): Promise<Value | undefined> } {
    return { ...this.#scope("effects").kv, get: (key) => this.#readKv(key) };
  }

  /** Effects that are applied only if this attempt is the job's last and it fails. */
  get whenFailed(): EffectsScope {
    return this.#scope("failureEffects");
  }

  /**
   * Completes the job inside the caller's own transaction: the completion and the caller's rows commit or roll back
   * together. What the handler returns afterwards is not stored: its settle is answered `already`.
   */
  get completeIn(): CompleteIn<Returned> {
    return (connection, ...[result]) => this.#completeIn(connection, result);
  }

  async #completeIn(connection: unknown, result?: unknown): Promise<void> {
    const needs = this.#needs;
    const { effects } = this.#attempt;
    const { next, attempts } = completed(needs, this.#attempt, await this.#encodeResult(result));
    const draft = effects === null || effects.isEmpty ? undefined : await effects.build();
    await needs.limits.mustBeThere(draft?.jobs ?? []);
    const settle = {
      ...this.#ref,
      next,
      attempts,
      ...(draft === undefined ? {} : { effects: draft }),
    };
    const [answer] = await needs.store.inTransaction(connection).settleIfLeased([settle]);
    if (answer?.kind === "ok" || answer?.kind === "already") {
      this.#isCompleted = true;
      return;
    }
    throw new MillraceError(
      "lease-lost",
      `The completion of ${this.id} was refused (${answer?.kind ?? "no answer"}); roll the transaction back.`,
    );
  }

  /** Refuses a result as if the handler had returned it; but the handler still runs, so it gets the error itself. */
  async #encodeResult(result: unknown): Promise<string | null> {
    try {
      return await encodeResult(this.#needs, this.#attempt, this.#definition, result);
    } catch (error) {
      throw shownError(error);
    }
  }

  get #ref(): LeaseRef {
    const { id, seq, fence } = this.#attempt.job;
    return { id, seq, fence };
  }

  #scope(which: "effects" | "failureEffects", mintId?: () => string): EffectsScope {
    return effectsScope(this.#needs, this.#attempt, {
      ...{ which, check: (call) => this.#checkEffect(call) },
      ...(mintId === undefined ? {} : { mintId }),
    });
  }

  /**
   * Called for each effect, because a handler may keep the functions and call them late. An effect that would not be
   * applied is refused. The refusal is logged as well, in case the handler ignores it.
   */
  #checkEffect(call: string): void {
    const isOver = this.#attempt.phase !== "running";
    if (!isOver && !this.#isCompleted) return;
    const why = isOver
      ? "the attempt has ended; effects must be made before the handler returns"
      : "the job was completed by completeIn; effects must be made before it";
    this.#needs.log.error(`an effect was refused: ${why}`, { id: this.id, name: this.name, call });
    throw new MillraceError("lease-lost", `${call} of the job ${this.id} was refused: ${why}.`);
  }

  /** A handler sees its own writes. */
  async #readKv<Value>(key: string): Promise<Value | undefined> {
    const needs = this.#needs;
    const drafted = this.#attempt.effects?.bodyOf(checkName(key, "kv key"));
    if (drafted === null) return undefined;
    if (drafted !== undefined) return needs.coder.decode(drafted) as Value;
    const { docs } = await needs.store.readDocs({ kind: kvKind, ids: [key] });
    return docs[0] === undefined ? undefined : (needs.coder.decode(docs[0].body) as Value);
  }

  /** Never throws: a line that cannot be stored must not fail the job. */
  #writeLog(level: string, message: string, fields: LogFields | undefined): void {
    const { log } = this.#needs;
    const shown = (fields ?? null) === null ? {} : { fields: this.#showable(fields as LogFields) };
    log.debug(message, { jobId: this.id, level, ...shown });
    const text = String(message).slice(0, logCharsMax);
    this.#record({ logs: [this.#encode({ level, message: text, ...shown }, { level, message: text })] });
  }

  /** Redacted, with errors as records, so that a codec can store it and a page may show it. */
  #showable(fields: LogFields): unknown {
    const shown = Object.entries(fields).map(([key, value]) => [
      key,
      value instanceof Error ? describeError(value) : value,
    ]);
    return redact(Object.fromEntries(shown), this.#attempt.policy.redact);
  }

  #encode(value: unknown, fallback: unknown): string {
    const { coder, repeated } = this.#needs;
    try {
      const encoded = coder.encode(value, "log line");
      if (encoded.length <= recordCharsMax) return encoded;
    } catch (error) {
      const message = `a log line or progress of ${JSON.stringify(this.name)} could not be encoded and was cut`;
      repeated.say("warn", message, { id: this.id, error });
    }
    return coder.encode(fallback, "log line");
  }

  #record(write: { readonly progress?: string; readonly logs?: readonly string[] }): void {
    const needs = this.#needs;
    const attempt = this.#attempt;
    const isOwnWrite = needs.records.write(
      { ...this.#ref, ...write },
      {
        answered: (answer) => {
          // A refused write means a lost lease. The renewal aborts the handler.
          if (answer !== "ok")
            needs.log.debug("a write of a past attempt was refused", { id: this.id, answer });
          attempt.callEnds();
        },
        failed: (error) => {
          needs.repeated.say("warn", "progress or log lines were not recorded", { id: this.id, error });
          attempt.callEnds();
        },
      },
    );
    if (isOwnWrite) attempt.callBegins();
  }
}
