/**
 * The context of a handler inside a sandbox, with the same members as in the worker. What the handler does for its job
 * is sent to the worker, which does it under the fence of the attempt. Names and options are checked here too, so that
 * a mistake is thrown at the call.
 */
import { jsonCodec } from "../../codec/json-codec.ts";
import { durationMs } from "../../model/duration.ts";
import { isBudget } from "../../engine/budgets/budget-definition.ts";
import { readAmount } from "../../model/budgets/budget.ts";
import { MillraceError, notYetSupported } from "../../model/error.ts";
import { idOfKey, placeOfId } from "../../model/flow/flow-meta.ts";
import { planGraph } from "../../model/flow/graph.ts";
import { checkName } from "../../model/name.ts";
import { checkNumber } from "../../model/option.ts";
import { describeError } from "../../model/job/attempt-log.ts";
import { readEffectFlow } from "../../engine/flows/submit-options.ts";
import { readEnqueueOptions } from "../../engine/submit/job-options.ts";
import { checkDefinition } from "../../engine/submit/job-definition.ts";
import { kvDeleteKeys, kvPutKeys, readKvPutOptions } from "../../engine/docs/kv.ts";
import type { LogFields } from "../../engine/log/logger.ts";
import type { JobIds } from "../../engine/submit/job-ids.ts";
import type { BuiltNode } from "../../engine/flows/flow.ts";
import { ContextFlow } from "../run/context-flow.ts";
import { AttemptAborted } from "../control.ts";
import type { AbortReason } from "../control.ts";
import { refuseMisplaced } from "../run/effects-scope.ts";
import type { EffectsScope } from "../run/effects-scope.ts";
import type { Fence, JobContext, JobLog } from "../run/job-context.ts";
import { lineOf, lineWith, notListed, valueIn } from "./messages.ts";
import type { EffectsWhen, FromSandbox, SentJob, SentMember, ToSandbox } from "./messages.ts";
import { receiveError } from "./sent-error.ts";
import { sentNode } from "./sent-node.ts";

/** What all runs of a sandbox share. */
export interface SandboxSurroundings {
  readonly send: (line: string) => void;
  readonly jobs: ReadonlySet<string>;
  readonly ids: Pick<JobIds, "placement" | "mintBeside" | "checkBeside">;
}

type Effect = Extract<FromSandbox, { type: "effect" }>;
type EffectMade = Omit<Effect, "type" | "run" | "when">;

export class SandboxContext implements Pick<JobContext, keyof JobContext> {
  readonly input: unknown;
  readonly #run: number;
  readonly #job: SentJob;
  readonly #around: SandboxSurroundings;
  readonly #controller = new AbortController();
  readonly #calls = new Map<number, PromiseWithResolvers<unknown>>();
  #flow: ContextFlow | null = null;
  #callsMade = 0;
  #isOver = false;

  constructor(run: number, job: SentJob, input: unknown, around: SandboxSurroundings) {
    this.#run = run;
    this.#job = job;
    this.input = input;
    this.#around = around;
  }

  get id(): string {
    return this.#job.id;
  }

  get name(): string {
    return this.#job.name;
  }

  get queue(): string {
    return this.#job.queue;
  }

  get createdAt(): Date {
    return new Date(this.#job.createdAt);
  }

  get worker(): string {
    return this.#job.worker;
  }

  get host(): string {
    return this.#job.host;
  }

  get attempt(): number {
    return this.#job.attempt;
  }

  get isLastAttempt(): boolean {
    return this.#job.isLastAttempt;
  }

  get headers(): Readonly<Record<string, string>> {
    return this.#job.headers;
  }

  get trace(): Readonly<Record<string, string>> {
    return this.#job.trace;
  }

  get attached(): unknown {
    const { attached } = this.#job;
    return attached === undefined ? undefined : jsonCodec.decode(attached);
  }

  get topic(): JobContext["topic"] {
    return this.#job.topic;
  }

  /** The worker plans the nodes when the job completes. */
  get flow(): JobContext["flow"] {
    if (placeOfId(this.#job.id) === null) return null;
    this.#flow ??= new ContextFlow(this.#job.id, (_, nodes) => {
      for (const node of nodes) this.#addNode(node);
    });
    return this.#flow;
  }

  #addNode(built: BuiltNode): void {
    const sent = { effect: "flow.add", ...this.#sentMember(built) } as const;
    this.#apply("completion", sent, built.submission?.input);
  }

  #sentMember(built: BuiltNode): SentMember {
    const { submission } = built;
    const node = sentNode(built);
    if (submission === null) return { node };
    const { name } = submission.job;
    if (!this.#around.jobs.has(name)) throw notListed(this.name, name);
    return { node, name, ...sentOptions(submission.options) };
  }

  get schedule(): JobContext["schedule"] {
    const { schedule } = this.#job;
    if (schedule === null) return null;
    return { name: schedule.name, tick: schedule.tick === null ? null : new Date(schedule.tick) };
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get idempotencyKey(): string {
    return this.#job.idempotencyKey;
  }

  get fence(): Fence {
    return this.#job.fence;
  }

  get log(): JobLog {
    const write = (level: string) => (message: string, fields?: LogFields) =>
      this.#writeLog(level, message, fields);
    return { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
  }

  get progress(): JobContext["progress"] {
    return (value, message, data) => {
      checkNumber(value, "progress");
      const text = message === undefined ? {} : { message };
      this.#say({ type: "progress", run: this.#run, value, ...text }, "data", data);
    };
  }

  get stream(): JobContext["stream"] {
    const say = (value: unknown, summary: { isSummary?: true }): void => {
      if (this.#isOver)
        throw new MillraceError(
          "lease-lost",
          `Output of the job ${this.id} was refused: the attempt has ended.`,
        );
      this.#say({ type: "frame", run: this.#run, ...summary }, "value", value);
    };
    return {
      write: (frame) => say(frame, {}),
      summary: (patch) => say(patch, { isSummary: true }),
      flush: async () => void (await this.#ask({ ask: "flush" })),
    };
  }

  get extend(): JobContext["extend"] {
    return async (lease) => void (await this.#ask({ ask: "extend", leaseMs: durationMs(lease, "extend") }));
  }

  /**
   * A report is the worker's call. A reservation would be held by the worker, which cannot see the end of its block.
   */
  get usage(): JobContext["usage"] {
    return {
      report: async (budget, amount, options = {}) => {
        const key = isBudget(budget) ? budget.name : checkName(budget, "usage.report: budget");
        await this.#ask({ ask: "usage.report", key, amount: readAmount(amount, "usage.report"), options });
      },
      reserve: () => Promise.reject(notYetSupported("usage.reserve of a handler in a sandbox")),
    };
  }

  get enqueue(): EffectsScope["enqueue"] {
    return this.#scope("completion").enqueue;
  }

  get submit(): EffectsScope["submit"] {
    return this.#scope("completion").submit;
  }

  get kv(): JobContext["kv"] {
    return { ...this.#scope("completion").kv, get: (key) => this.#readKv(key) };
  }

  get whenFailed(): EffectsScope {
    return this.#scope("failure");
  }

  /** Not possible: the transaction's connection is in this process, and the lease is in the worker's. */
  get limits(): JobContext["limits"] {
    const refuse = (): Promise<never> => Promise.reject(notYetSupported("limits of a handler in a sandbox"));
    return { acquire: refuse, throttle: refuse };
  }

  get completeIn(): JobContext["completeIn"] {
    return () => Promise.reject(notYetSupported("completeIn of a handler in a sandbox"));
  }

  abort(reason: AbortReason): void {
    this.#controller.abort(new AttemptAborted(reason));
  }

  answered(message: Extract<ToSandbox, { type: "answer" }>): void {
    const call = this.#calls.get(message.call);
    this.#calls.delete(message.call);
    if (message.error === undefined) call?.resolve(valueIn(message, "value"));
    else call?.reject(receiveError(message.error));
  }

  /** The handler has ended: later calls for its job are refused. */
  close(): void {
    this.#isOver = true;
    const error = new MillraceError("lease-lost", "The attempt has ended.");
    for (const { reject } of this.#calls.values()) reject(error);
    this.#calls.clear();
  }

  #say(message: FromSandbox, field: "input" | "data" | "fields" | "value", value: unknown): void {
    if (!this.#isOver) this.#around.send(lineWith(message, field, value));
  }

  #apply(when: EffectsWhen, effect: EffectMade, value: unknown): void {
    if (this.#isOver)
      throw new MillraceError(
        "lease-lost",
        `An effect of the job ${this.id} was refused: the attempt has ended; effects must be made before the handler returns.`,
      );
    const message: Effect = { type: "effect", run: this.#run, when, ...effect };
    const takesInput = ["enqueue", "flow.add", "flow.submit"].includes(effect.effect);
    this.#say(message, takesInput ? "input" : "value", value);
  }

  #scope(when: EffectsWhen): EffectsScope {
    const apply = (effect: EffectMade, value?: unknown): void => this.#apply(when, effect, value);
    return {
      enqueue: (job, input, options) => {
        checkDefinition(job, "enqueue");
        if (!this.#around.jobs.has(job.name)) throw notListed(this.name, job.name);
        if (options !== undefined) readEnqueueOptions(options, `enqueue ${JSON.stringify(job.name)}`);
        const id = options?.id ?? this.#around.ids.mintBeside(this.id);
        refuseMisplaced(this.#around.ids, this.id, { jobs: [{ id, digest: null, unique: null }] });
        apply({ effect: "enqueue", name: job.name, id, ...sentOptions(options) }, input);
        return id;
      },
      submit: (flow, options = {}) => {
        const { key, failureMode } = readEffectFlow(flow, options);
        planGraph(flow.nodes, { path: "", part: { kind: "flow", failureMode } });
        const id =
          key === undefined ? this.#around.ids.mintBeside(this.id) : idOfKey(this.#around.ids.placement, key);
        const nodes = flow.nodes.map((node) => this.#sentMember(node));
        const onFailed = flow.onFailed?.name;
        if (onFailed !== undefined && !this.#around.jobs.has(onFailed)) throw notListed(this.name, onFailed);
        const returned = flow.returned === null ? {} : { returned: flow.returned };
        const sent = {
          ...{ name: flow.name, id, nodes, ...returned, ...sentOptions({ ...options, failureMode }) },
          ...(onFailed === undefined ? {} : { onFailed }),
        };
        apply(
          { effect: "flow.submit", ...sent },
          flow.nodes.map(({ submission }) => submission?.input ?? null),
        );
        return id;
      },
      kv: {
        put: (key, value, options) => {
          readKvPutOptions(options, kvPutKeys);
          refuseMisplaced(this.#around.ids, this.id, { docs: [{ id: checkName(key, "kv key") }] });
          apply({ effect: "kv.put", key, ...sentOptions(options) }, value);
        },
        delete: (key, options) => {
          readKvPutOptions(options, kvDeleteKeys);
          refuseMisplaced(this.#around.ids, this.id, { docs: [{ id: checkName(key, "kv key") }] });
          apply({ effect: "kv.delete", key, ...sentOptions(options) });
        },
      },
    };
  }

  async #readKv<Value>(key: string): Promise<Value | undefined> {
    return (await this.#ask({ ask: "kv.get", key: checkName(key, "kv key") })) as Value | undefined;
  }

  #ask(
    question:
      | { ask: "kv.get"; key: string }
      | { ask: "extend"; leaseMs: number }
      | { ask: "usage.report"; key: string; amount: number; options: { key?: string } }
      | { ask: "flush" },
  ): Promise<unknown> {
    if (this.#isOver) return Promise.reject(new MillraceError("lease-lost", "The attempt has ended."));
    const answer = Promise.withResolvers<unknown>();
    const call = ++this.#callsMade;
    this.#calls.set(call, answer);
    this.#around.send(lineOf({ type: "call", run: this.#run, call, ...question }));
    return answer.promise;
  }

  /** Never throws: a line that cannot be stored must not fail the job. */
  #writeLog(level: string, message: string, fields: LogFields | undefined): void {
    const line = { type: "log", run: this.#run, level, message: String(message) } as const;
    const shown =
      fields &&
      Object.fromEntries(
        Object.entries(fields).map(([key, value]) => [
          key,
          value instanceof Error ? describeError(value) : value,
        ]),
      );
    try {
      this.#say(line, "fields", shown);
    } catch {
      this.#say(line, "fields", undefined);
    }
  }
}

/** As JSON, or as the codec's text if there are dates among them. */
function sentOptions(options: object | undefined): Pick<Effect, "options"> {
  if (options === undefined) return {};
  const text = jsonCodec.encode(options, "options");
  return { options: text.startsWith("~") ? text : (JSON.parse(text) as Record<string, unknown>) };
}
