/**
 * One run of a handler in a sandbox, as the worker sees it: calls that the handler makes on its context there are made
 * here, on the context of the attempt. If an effect is refused here, the handler has already gone on, so the run fails
 * when the handler returns.
 */
import { jsonCodec } from "../../codec/json-codec.ts";
import { durationMs } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import type { AttemptOutput } from "../../model/job/attempt-log.ts";
import type { AnyJob, JobDefinition } from "../../engine/submit/job-definition.ts";
import { Flow } from "../../engine/flows/flow.ts";
import type { BuiltNode } from "../../engine/flows/flow.ts";
import { JobContext } from "../run/job-context.ts";
import type { EffectsScope } from "../run/effects-scope.ts";
import type { ContextInside, JobLog } from "../run/job-context.ts";
import { describeError } from "../../model/job/attempt-log.ts";
import { lineOf, lineWith, notListed, valueIn } from "./messages.ts";
import type { FromSandbox, SentJob, SentMember } from "./messages.ts";
import { receiveThrown } from "./sent-error.ts";
import { checkReturned, readSentNode } from "./sent-node.ts";

/** The outcome of a run that had not begun when its sandbox ended: it must be run again. */
export const notBegun = Symbol("not begun");

type About<Type extends FromSandbox["type"]> = Extract<FromSandbox, { type: Type }>;

const levels = ["debug", "info", "warn", "error"] as const satisfies readonly (keyof JobLog)[];

export class SandboxRun {
  readonly context: JobContext;
  /** The jobs that the handler may enqueue, by their names. */
  readonly #jobs: ReadonlyMap<string, JobDefinition>;
  readonly #inside: ContextInside;
  readonly #outcome = Promise.withResolvers<unknown>();
  #refused: { readonly error: unknown } | null = null;
  #isOver = false;

  constructor(context: JobContext, jobs: ReadonlyMap<string, JobDefinition>) {
    this.context = context;
    this.#jobs = jobs;
    this.#inside = JobContext.insideOf(context);
  }

  get outcome(): Promise<unknown> {
    return this.#outcome.promise;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** The run waits for another one in its sandbox, so its time does not count yet. */
  wait(): void {
    const { attempt } = this.#inside;
    attempt.origin.aborting.unwatch(attempt);
  }

  /** The run begins in its sandbox. */
  begin(): void {
    const { attempt, needs } = this.#inside;
    if (attempt.phase !== "running" || attempt.abortReason !== null) return;
    attempt.start(needs.platform.monotonicUs());
    attempt.origin.aborting.watch(attempt);
  }

  /** Its sandbox ended before the run began. */
  giveBack(): void {
    this.#isOver = true;
    this.#outcome.resolve(notBegun);
  }

  /** The line that starts it. Throws if the input cannot be sent. */
  startLine(run: number): string {
    return lineWith({ type: "run", run, job: describeJob(this.context) }, "input", this.context.input);
  }

  /**
   * Applies a message about this run. @returns the message that ends the run, which is passed to `end` once the output
   * is complete; null while the run goes on.
   */
  heard(message: FromSandbox, send: (line: string) => void): About<"returned" | "threw"> | null {
    switch (message.type) {
      case "returned":
      case "threw":
        return message;
      case "progress": {
        const { value, message: text } = message;
        this.context.progress(Number(value), text, valueIn(message, "data"));
        return null;
      }
      case "log":
        this.#log(message);
        return null;
      case "effect":
        this.#apply(message);
        return null;
      case "frame":
        this.#write(message);
        return null;
      case "call":
        void this.#answer(message, send);
        return null;
      case "ready":
      case "failed":
        return null;
    }
  }

  end(message: About<"returned" | "threw">, output: AttemptOutput | null): void {
    if (message.type === "threw") return this.lose(receiveThrown(message), output);
    if (this.#refused !== null) return this.lose(this.#refused.error, output);
    try {
      const result = valueIn(message, "result");
      this.#close(output);
      this.#outcome.resolve(result);
    } catch (error) {
      this.lose(error, output);
    }
  }

  lose(error: unknown, output: AttemptOutput | null): void {
    if (this.#isOver) return;
    this.#close(output);
    this.#outcome.reject(error);
  }

  #close(output: AttemptOutput | null): void {
    this.#isOver = true;
    this.#inside.attempt.output = output;
  }

  #log(message: About<"log">): void {
    const level = levels.find((each) => each === message.level) ?? "info";
    const fields = valueIn(message, "fields");
    const isShown = typeof fields === "object" && fields !== null;
    this.context.log[level](
      String(message.message),
      isShown ? (fields as Record<string, unknown>) : undefined,
    );
  }

  #apply(message: About<"effect">): void {
    try {
      this.#effect(
        message,
        this.#inside.scope(message.when === "failure" ? "failureEffects" : "effects", mintOf(message)),
      );
    } catch (error) {
      this.#refused ??= { error };
    }
  }

  #write(message: About<"frame">): void {
    try {
      const value = valueIn(message, "value");
      if (message.isSummary === true) this.context.stream.summary(value);
      else this.context.stream.write(value);
    } catch (error) {
      this.#refused ??= { error };
    }
  }

  #effect(message: About<"effect">, scope: EffectsScope): void {
    const { effect, name = "", key = "" } = message;
    const options = readSentOptions(message.options);
    switch (effect) {
      case "enqueue": {
        scope.enqueue(this.#listed(name), valueIn(message, "input"), options);
        return;
      }
      case "flow.add":
        return this.#addNode(message);
      case "flow.submit":
        scope.submit(this.#sentFlow(message), options);
        return;
      case "kv.put":
        return scope.kv.put(key, valueIn(message, "value"), options);
      case "kv.delete":
        return scope.kv.delete(key, options);
      default:
        throw new MillraceError("invalid-option", `There is no effect ${JSON.stringify(effect)}.`);
    }
  }

  #listed(name: string): JobDefinition {
    const definition = this.#jobs.get(name);
    if (definition === undefined) throw notListed(this.context.name, name);
    return definition;
  }

  #addNode(message: About<"effect">): void {
    const { flow, id } = this.context;
    if (flow === null)
      throw new MillraceError("invalid-option", `The job ${id} is a node of no flow, so it can add none.`);
    flow.nodes.push(this.#node(message, valueIn(message, "input")));
  }

  #sentFlow(message: About<"effect">): Flow {
    const { name = "", nodes = [], returned, onFailed } = message;
    const inputs = valueIn(message, "input");
    if (!Array.isArray(nodes) || !Array.isArray(inputs) || inputs.length !== nodes.length)
      throw new MillraceError("invalid-option", "flow.submit: nodes and input are lists of one length.");
    const flow = new Flow(name, onFailed === undefined ? {} : { onFailed: this.#listed(onFailed) as AnyJob });
    for (const [at, sent] of nodes.entries()) flow.nodes.push(this.#node(sent as SentMember, inputs[at]));
    if (returned !== undefined) flow.returned = checkReturned(returned);
    return flow;
  }

  #node({ name, node, options }: Partial<SentMember>, input: unknown): BuiltNode {
    const job = name === undefined ? null : (this.#listed(name) as AnyJob);
    return readSentNode(node, job === null ? null : { job, input, options: readSentOptions(options) });
  }

  async #answer(message: About<"call">, send: (line: string) => void): Promise<void> {
    const { run, call } = message;
    try {
      send(lineWith({ type: "answer", run, call }, "value", await this.#call(message)));
    } catch (error) {
      send(lineOf({ type: "answer", run, call, error: describeError(error) }));
    }
  }

  async #call({ ask, key = "", leaseMs, amount = 0, options }: About<"call">): Promise<unknown> {
    if (ask === "kv.get") return this.context.kv.get(key);
    if (ask === "usage.report") return this.context.usage.report(key, amount, options);
    if (ask === "extend") return this.context.extend(durationMs(leaseMs, "extend"));
    if (ask === "flush") return this.context.stream.flush();
    throw new MillraceError("invalid-option", `There is no call ${JSON.stringify(ask)}.`);
  }
}

function readSentOptions(options: SentMember["options"]): object | undefined {
  return typeof options === "string" ? (jsonCodec.decode(options) as object) : options;
}

function mintOf({ id }: About<"effect">): (() => string) | undefined {
  return typeof id === "string" ? () => id : undefined;
}

function describeJob(context: JobContext): SentJob {
  const { id, name, queue, attempt, isLastAttempt, worker, host, idempotencyKey, fence } = context;
  const { headers, trace, schedule, topic, attached } = context;
  return {
    ...{ id, name, queue, attempt, isLastAttempt, createdAt: context.createdAt.getTime() },
    ...{ worker, host, idempotencyKey, fence, headers, trace },
    ...(attached === undefined ? {} : { attached: jsonCodec.encode(attached, "attached") }),
    topic,
    schedule: schedule === null ? null : { name: schedule.name, tick: schedule.tick?.getTime() ?? null },
  };
}
