/**
 * One attempt of a durable job: it reads the journal, runs the handler of the run's version over it, and says how the
 * attempt has ended.
 *
 *   the run                      the attempt
 *   returned                     as of any job
 *   threw                        as of any job; on the failure of a step, failed
 *   suspended                    settled already: the lease, the slot and all timers are free
 *   continued                    scheduled, with a new round
 *   has undone its steps         failed, cancelled or expired, as its ending says
 *   diverged, or is full         failed
 *   was not asked for an entry   handed back once, then failed
 *   was stopped                  by the reason of the abort; handed back if the worker drains
 *   lost its lease               nothing to settle
 *
 * Middleware and telemetry are around the call of the handler. If the run rests they get a control outcome, because the
 * handler's own frames are abandoned and never end.
 */
import { childIdOf, deliverMissedEnds, planInvoke, planStart } from "../../engine/durable/children.ts";
import type { Parent } from "../../engine/durable/children.ts";
import type { AnyJob, JobDefinition } from "../../engine/submit/job-definition.ts";
import type { DurablePart } from "../../engine/durable/durable-definition.ts";
import { modelSources } from "../../engine/policies/model-sources.ts";
import type { Needs } from "../../engine/services.ts";
import { hasMark, roundOf } from "../../model/durable/durable-marks.ts";
import { JournalCursor } from "../../model/durable/journal-cursor.ts";
import { ownKey } from "../../model/durable/journal-entry.ts";
import type { EntryBody } from "../../model/durable/journal-entry.ts";
import { openInvokes } from "../../model/durable/open-invokes.ts";
import {
  afterContinue,
  afterDiverged,
  afterJournalFull,
  afterUnasked,
  afterUndos,
  afterVersionMissing,
  beginAnew,
} from "../../model/durable/run-end.ts";
import type { Ending } from "../../model/durable/undo-plan.ts";
import { chooseVersion } from "../../model/durable/version-choice.ts";
import { isMillraceError } from "../../model/error.ts";
import { afterKeyMissing, afterSnooze, afterUnreadable } from "../../model/job/after-run.ts";
import type { Decision, Sources } from "../../model/job/after-run.ts";
import { describeError } from "../../model/job/attempt-log.ts";
import { stepRetryDelayMs, defaultStepRetry } from "../../model/durable/step-retry.ts";
import type { Effects } from "../../store/records.ts";
import { Suspended, controlOf } from "../control.ts";
import type { HandlerFunction, SingleHandler } from "../handler.ts";
import type { Layers } from "../middleware.ts";
import { AttemptUsage } from "../run/usage.ts";
import type { Attempt, Stay } from "../run/attempt.ts";
import type { JobContext, JobContextNeeds } from "../run/job-context.ts";
import { decodeInput } from "../run/payloads.ts";
import { endByError, endByReturn, endByThrow, endedOf, handedBack } from "../settle/attempt-end.ts";
import type { AttemptEnd, AttemptEndNeeds } from "../settle/attempt-end.ts";
import { RunContext } from "./durable-context.ts";
import type { LiveCall } from "./live-call.ts";
import { observeRun } from "./observe-run.ts";
import type { ObserveNeeds } from "./observe-run.ts";
import { createRunCodec } from "./run-codec.ts";
import { RunExecution } from "./run-execution.ts";
import type { RunEnd } from "./run-settings.ts";
import type { JournalPage, Start } from "./run-journal.ts";
import type { FramePart } from "../output/frame-writer.ts";
import { readOlder } from "../output/older-output.ts";
import { StepCalls } from "./step-calls.ts";
import { emptyPage, StoreJournal } from "./store-journal.ts";

export type DurableStayNeeds = JobContextNeeds &
  AttemptEndNeeds &
  ObserveNeeds &
  Needs<"changes" | "journals" | "settles" | "planner" | "backoffs" | "strideMs">;

/** A run stays for a wait that is over so soon, because a claim costs more. */
const lingerMs = 20;
/** When a run comes again whose journal could not be read. */
const awayMs = 1000;
/** How long an entry of the journal may not be asked for. */
const unaskedMs = 30_000;

export class DurableStay implements Stay {
  readonly #needs: DurableStayNeeds;
  readonly #attempt: Attempt;
  readonly #handler: SingleHandler;
  readonly #journal: StoreJournal;
  #execution: RunExecution | null = null;
  /** Once the run is over: how, unless the handler itself says it. */
  #end: RunEnd | null = null;
  /** What the handler's error means, if it ends the run. */
  #failure: Decision | null = null;
  #outcome: Promise<unknown> | null = null;
  #finish: Pick<PromiseWithResolvers<unknown>, "resolve" | "reject"> | null = null;
  #isIntakeClosed = false;

  constructor(needs: DurableStayNeeds, attempt: Attempt, handler: SingleHandler) {
    this.#needs = needs;
    this.#attempt = attempt;
    this.#handler = handler;
    this.#journal = new StoreJournal(needs, attempt, {
      hasEvents: handler.definition.durable?.hasEvents === true,
      effectsOf: (starts) => this.#effectsOf(starts),
      cancelAsked: () => attempt.origin.aborting.cancelAsked(attempt),
    });
  }

  get known(): number {
    return this.#execution?.known ?? 0;
  }

  get isEnding(): boolean {
    return this.#execution?.isEnding ?? hasMark(this.#attempt.job.durable, "isEnding");
  }

  heard(last?: number): void {
    this.#execution?.heard(last);
  }

  drain(): void {
    this.#isIntakeClosed = true;
    this.#execution?.drain();
  }

  async run(layers: Layers): Promise<AttemptEnd> {
    const attempt = this.#attempt;
    const { definition } = this.#handler;
    attempt.stay = this;
    try {
      const page = await this.#readPage();
      if (page === null) return null;
      // A flow replays its members without a look at their journals.
      if (page.entries.some(({ body }) => body.kind === "over"))
        return { next: beginAnew(attempt.policy, this.#needs.strideMs), attempts: null };
      const { durable } = definition as JobDefinition & DurablePart;
      const { older } = this.#handler;
      const offered = { current: durable.version, older: [...(older?.keys() ?? [])] };
      const choice = chooseVersion(page.entries, offered);
      if (choice.kind === "missing")
        return afterVersionMissing(endedOf(attempt), choice.version, this.#sources());
      const handle = choice.version === durable.version ? this.#handler.handle : older?.get(choice.version);
      const input = await decodeInput(this.#needs, attempt, definition);
      const context = this.#begin(page, input, choice);
      const outcome = await layers(context, () =>
        this.#call(context, handle as HandlerFunction<unknown, unknown>),
      );
      return await this.#ended(() => endByReturn(this.#needs, attempt, definition, outcome));
    } catch (error) {
      return this.#ended(() => this.#threw(error));
    }
  }

  /** @returns null if the lease is lost. */
  async #readPage(): Promise<JournalPage | null> {
    const { durable, claimedAt } = this.#attempt.job;
    if (!hasMark(durable, "hasJournal")) return emptyPage(claimedAt);
    try {
      const read = await this.#journal.read(0);
      if (read.kind !== "ok") return null;
      const open = openInvokes(read.entries).map(({ call, life }) => this.#parentOf(call, life));
      if (open.length === 0 || !(await deliverMissedEnds(this.#needs, open))) return read;
      const again = await this.#journal.read(0);
      return again.kind === "ok" ? again : null;
    } catch (error) {
      this.#end = isMillraceError(error, "payload-unreadable")
        ? { kind: "unreadable", error }
        : { kind: "refused", error };
      throw error;
    }
  }

  #begin(
    page: JournalPage,
    input: unknown,
    version: { readonly version: number; readonly isNew: boolean },
  ): RunContext {
    const needs = this.#needs;
    const attempt = this.#attempt;
    const { definition } = this.#handler;
    const { job } = attempt;
    const { platform } = needs;
    const { signals, durable } = definition as JobDefinition & DurablePart;
    const codec = createRunCodec(needs, signals);
    const backoffs = modelSources(needs, job.claimedAt, attempt.owner);
    const observer = observeRun(needs, attempt);
    const execution = new RunExecution(
      this.#journal,
      new JournalCursor<LiveCall>(job.createdAt),
      {
        ...{
          platform,
          codec,
          version,
          round: roundOf(job.durable),
          lingerMs,
          unaskedMs,
          idleMs: durable.idleMs,
        },
        ...(observer === undefined ? {} : { observer }),
        judge: (error) => this.#judge(error),
        undoDelayMs: (undoAttempt, error) =>
          stepRetryDelayMs(defaultStepRetry, undoAttempt, describeError(error), backoffs),
      },
      page,
      (end) => this.#finished(end),
    );
    this.#execution = execution;
    const run = { run: job.id, round: roundOf(job.durable) };
    const step = new StepCalls(execution, {
      ...{ run, journal: this.#journal, codec, platform, backoffs },
      usage: new AttemptUsage(needs, attempt),
      ...{
        acquire: this.#needs.workerLimits.acquire,
        input,
        takes: (name: string) => Object.hasOwn(signals, name),
      },
      encodeInput: (next) => needs.coder.encode(next, "input"),
      childId: (call) => childIdOf(needs, this.#parentOf(call)),
    });
    const given = { definition, input };
    return new RunContext(needs, attempt, given, {
      step,
      isReplaying: () => execution.isReplaying,
      partNow: () => step.stepNow() ?? this.#codeNow(execution),
      older: page.entries.length === 0 ? undefined : () => readOlder(needs, job.id),
      durable: () => attempt.job.durable,
    });
  }

  /** The code between the steps, named by what the journal holds: if that grows no more, the code runs again. */
  #codeNow(execution: RunExecution): FramePart | null {
    return execution.isReplaying ? null : { part: `@${execution.known}`, life: this };
  }

  /** Calls the handler. A middleware that calls it again gets the same outcome: a run is one call. */
  #call(context: JobContext, handle: HandlerFunction<unknown, unknown>): Promise<unknown> {
    if (this.#outcome !== null) return this.#outcome;
    const execution = this.#execution as RunExecution;
    this.#outcome = new Promise((resolve, reject) => {
      this.#finish = { resolve, reject };
      const { signal } = this.#attempt;
      const aborted = (): void => execution.stop();
      if (signal.aborted) aborted();
      else signal.addEventListener("abort", aborted, { once: true });
      if (this.#isIntakeClosed) execution.drain();
      execution.begin(async () => handle(context));
    });
    return this.#outcome;
  }

  /** The run is over in this process. */
  #finished(end: RunEnd): void {
    const finish = this.#finish;
    this.#finish = null;
    switch (end.kind) {
      case "returned":
        return finish?.resolve(end.value);
      case "threw":
        return finish?.reject(end.error);
      case "suspended":
      case "continued":
        this.#end = end;
        return finish?.resolve(new Suspended());
      case "stopped":
      case "lost":
        this.#end = end;
        return this.#attempt.abortReason === null
          ? finish?.resolve(new Suspended())
          : finish?.reject(this.#attempt.signal.reason);
      case "ended":
      case "unreadable":
      case "refused":
        this.#end = end;
        return finish?.reject(end.error ?? new Error("The run has undone its steps."));
      case "diverged":
      case "unasked":
      case "journal-full":
      case "continues":
        this.#end = end;
        return finish?.reject(new Error(`The run ended as ${end.kind}.`));
    }
  }

  /** The end that the run itself has, or that of its handler. */
  #ended(byHandler: () => AttemptEnd | Promise<AttemptEnd>): AttemptEnd | Promise<AttemptEnd> {
    const end = this.#end;
    if (end === null) return byHandler();
    const attempt = this.#attempt;
    const { policy } = attempt;
    switch (end.kind) {
      case "suspended":
        return { rested: this.#journal.rested as NonNullable<StoreJournal["rested"]> };
      case "continued":
        return { next: afterContinue(policy, end.input, this.#needs.strideMs), attempts: null };
      case "stopped":
        return attempt.abortReason === null
          ? handedBack(this.#needs, attempt)
          : endByError(this.#needs, attempt, attempt.signal.reason);
      case "lost":
        return null;
      case "ended":
        return afterUndos(policy, end.ending, this.#failure?.attempts ?? null);
      case "diverged":
        return afterDiverged(endedOf(attempt), end.difference, this.#sources());
      case "unasked":
        return afterUnasked(endedOf(attempt), end.difference, this.#sources());
      case "journal-full":
        return afterJournalFull(endedOf(attempt), this.#sources());
      case "unreadable":
        return isMillraceError(end.error, "unknown-key")
          ? afterKeyMissing(endedOf(attempt), describeError(end.error), this.#sources())
          : afterUnreadable(endedOf(attempt), ["its journal"], this.#sources());
      case "refused":
        // A store that is away is no failure of the run.
        return isMillraceError(end.error) && end.error.retryable && attempt.abortReason === null
          ? { next: afterSnooze(policy, awayMs, this.#needs.strideMs), attempts: null }
          : endByError(this.#needs, attempt, end.error);
      default:
        return byHandler();
    }
  }

  async #threw(error: unknown): Promise<AttemptEnd> {
    const failed = this.#execution?.failedCall(error);
    if (failed === undefined || this.#attempt.abortReason !== null || this.#attempt.cancelAsked)
      return endByThrow(this.#needs, this.#attempt, error);
    return this.#failed(error, failed);
  }

  /** The handler threw what is recorded, so it would throw it again. */
  #failed(error: unknown, { key, kind }: LiveCall): AttemptEnd {
    const decision = endByError(this.#needs, this.#attempt, error, "step-failed");
    if (decision === null || !("next" in decision) || decision.next.to !== "failed") return decision;
    const lives = this.#execution?.lifeOf(key) ?? 0;
    const gaveUp: EntryBody = { kind: "gave-up", call: key, as: kind };
    return { ...decision, entry: { key: ownKey(gaveUp, lives), body: gaveUp } };
  }

  /** What becomes of a run whose handler threw, if steps of it have to be undone first. */
  #judge(error: unknown): "retry" | Ending {
    const execution = this.#execution as RunExecution;
    // After an abort the run is placed anew, and undoes its steps in another stay.
    if (!execution.hasUndo || this.#attempt.abortReason !== null || this.#attempt.cancelAsked) return "retry";
    if (controlOf(error)?.kind === "throttled") return "retry";
    const failed = execution.failedCall(error);
    const end =
      failed === undefined ? endByError(this.#needs, this.#attempt, error) : this.#failed(error, failed);
    if (end === null || !("next" in end)) return "retry";
    const { to } = end.next;
    if (to !== "failed" && to !== "cancelled" && to !== "expired") return "retry";
    this.#failure = end;
    return { state: to, reason: (end.next as { readonly reason: string | null }).reason ?? to };
  }

  /** The jobs that calls start. */
  async #effectsOf(starts: readonly Start[]): Promise<Effects> {
    const planned = await Promise.all(
      starts.map(({ call, submission, isAwaited }) => {
        const parent = this.#parentOf(call);
        return isAwaited
          ? planInvoke(this.#needs, parent, submission)
          : planStart(this.#needs, parent, { ...submission, job: submission.job as AnyJob });
      }),
    );
    const jobs = planned.flatMap((each) => each.jobs ?? []);
    await this.#needs.limits.whenMade(jobs);
    return { jobs };
  }

  #parentOf(call: string, life = this.#execution?.lifeOf(call) ?? 0): Parent {
    const { id, createdAt, durable } = this.#attempt.job;
    return { run: id, round: roundOf(durable), call, createdAt, ...(life === 0 ? {} : { life }) };
  }

  #sources(): Sources {
    const now = this.#attempt.storeTimeAt(this.#needs.platform.monotonicUs());
    return modelSources(this.#needs, now, this.#attempt.owner);
  }
}
