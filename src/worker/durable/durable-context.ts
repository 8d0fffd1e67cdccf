/**
 * The context of a durable handler: `step` beside what any context has. Log lines and progress are silent while the run
 * tells its handler what an earlier life knew. What a plain handler asks for with its end is refused by name: it would
 * be asked for again in each life.
 */
import type { JobDefinition } from "../../engine/submit/job-definition.ts";
import { MillraceError } from "../../model/error.ts";
import { roundOf } from "../../model/durable/durable-marks.ts";
import type { Usage } from "../run/usage.ts";
import type { EffectsScope } from "../run/effects-scope.ts";
import type { ContextFlow } from "../run/context-flow.ts";
import { JobContext } from "../run/job-context.ts";
import type { JobContextNeeds, JobLog } from "../run/job-context.ts";
import type { Attempt } from "../run/attempt.ts";
import type { FramePart, FrameWriter } from "../output/frame-writer.ts";
import type { OlderOutput } from "../output/older-output.ts";
import type { AnyStep } from "./step-calls.ts";

export interface DurableParts {
  readonly step: AnyStep;
  readonly isReplaying: () => boolean;
  /** The part of the run that runs now; null during a replay outside of steps. */
  readonly partNow: () => FramePart | null;
  /** What earlier stays of the round have written; undefined if there was none. */
  readonly older: (() => Promise<OlderOutput>) | undefined;
  /** The field `durable` of the job. */
  readonly durable: () => number;
}

export class RunContext extends JobContext {
  readonly step: AnyStep;
  readonly #parts: DurableParts;

  constructor(
    needs: JobContextNeeds,
    attempt: Attempt,
    given: { readonly definition: JobDefinition; readonly input: unknown },
    parts: DurableParts,
  ) {
    super(needs, attempt, given.definition, given.input);
    this.#parts = parts;
    this.step = parts.step;
  }

  /** The same for the whole round of the run. A step has a key of its own. */
  override get idempotencyKey(): string {
    return `${this.id}:${roundOf(this.#parts.durable())}`;
  }

  override get log(): JobLog {
    const log = super.log;
    const write =
      (level: keyof JobLog): JobLog[keyof JobLog] =>
      (message, fields) => {
        if (!this.#parts.isReplaying()) log[level](message, fields);
      };
    return { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
  }

  override get progress(): JobContext["progress"] {
    const progress = super.progress;
    return (value, message, data) => {
      if (!this.#parts.isReplaying()) progress(value, message, data);
    };
  }

  protected override openStream(): FrameWriter {
    const { partNow, older } = this.#parts;
    return super.openStream({ partNow, ...(older === undefined ? {} : { older }) });
  }

  override get enqueue(): EffectsScope["enqueue"] {
    return refuse("enqueue", "step.enqueue");
  }

  override get submit(): EffectsScope["submit"] {
    return refuse("submit", "step.invoke");
  }

  override get kv(): JobContext["kv"] {
    return refuse("kv", "mill.kv in a step");
  }

  override get whenFailed(): EffectsScope {
    return refuse("whenFailed", "the undo of a step");
  }

  override get usage(): Usage {
    return refuse("usage", "usage of a step");
  }

  override get flow(): ContextFlow | null {
    return refuse("flow", "step.invoke");
  }

  override get completeIn(): JobContext["completeIn"] {
    return refuse("completeIn", "step.runIn");
  }
}

function refuse(what: string, instead: string): never {
  throw new MillraceError("not-in-runs", `The handler of a durable job has no ${what}: use ${instead}.`);
}
