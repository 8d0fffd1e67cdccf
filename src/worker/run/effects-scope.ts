/**
 * Collects the effects of a handler: those for the completion of its job, or those for its final failure. They are
 * planned when they are requested, so that a wrong input is refused at the call, and applied with the end.
 */
import { MillraceError } from "../../model/error.ts";
import { checkName } from "../../model/name.ts";
import { anySubmission, checkDefinition } from "../../engine/submit/job-definition.ts";
import type { JobDefinition } from "../../engine/submit/job-definition.ts";
import type { Needs } from "../../engine/services.ts";
import type { EnqueueOptions } from "../../engine/submit/job-options.ts";
import { kvDeleteKeys, kvPutKeys, readKvPutOptions, readKvWrites } from "../../engine/docs/kv.ts";
import type { KvPutOptions } from "../../engine/docs/kv.ts";
import type { NewJob } from "../../store/records.ts";
import type { Attempt } from "./attempt.ts";
import { EffectsDraft } from "./effects-draft.ts";

/** Collects effects: for completion, or for the case that the job ends in failed. */
export interface EffectsScope {
  /**
   * A follow-up job, submitted in the same step as this job's end.
   *
   * @returns its id. If another job holds its unique key at that time, that job is kept and no job has this id.
   */
  readonly enqueue: <In, Out, Result, Returned>(
    job: JobDefinition<In, Out, Result, Returned>,
    input: NoInfer<In>,
    options?: EnqueueOptions<NoInfer<In>>,
  ) => string;
  readonly kv: {
    put(key: string, value: unknown, options?: Pick<KvPutOptions, "version" | "ttl">): void;
    delete(key: string, options?: Pick<KvPutOptions, "version">): void;
  };
}

export interface ScopeOptions {
  readonly which: "effects" | "failureEffects";
  /** Called for each effect; throws if the effect would not be applied any more. */
  readonly check: (call: string) => void;
  /** For follow-ups whose ids are made elsewhere. */
  readonly mintId?: () => string;
}

export function effectsScope(
  needs: Needs<"coder" | "telemetry" | "ids" | "planner">,
  attempt: Attempt,
  { which, check, mintId = () => needs.ids.mintBeside(attempt.job.id) }: ScopeOptions,
): EffectsScope {
  const scope = which === "effects" ? "" : "whenFailed.";
  const draft = (call: string): EffectsDraft => {
    check(`${scope}${call}`);
    return (attempt[which] ??= new EffectsDraft());
  };
  return {
    enqueue: (job, input, options) => {
      checkDefinition(job, "enqueue");
      if (options?.repeatOf !== undefined)
        throw new MillraceError(
          "invalid-option",
          "enqueue: a handler's follow-up is made once; repeatOf is not for it.",
        );
      const id = options?.id ?? mintId();
      const what = `enqueue(${JSON.stringify(job.name)})`;
      const writes = options?.kv === undefined ? [] : readKvWrites(needs.coder, [options.kv], what);
      const effects = draft(what);
      effects.addJob(
        traced(
          needs,
          attempt,
          needs.planner.plan(anySubmission(job, input, options), () => id),
        ),
      );
      effects.putDocs(writes);
      return id;
    },
    kv: {
      put: (key, value, options) =>
        draft(`kv.put(${JSON.stringify(checkName(key, "kv key"))})`).putDoc(
          key,
          needs.coder.encode(value, "kv value"),
          readKvPutOptions(options, kvPutKeys),
        ),
      delete: (key, options) =>
        draft(`kv.delete(${JSON.stringify(checkName(key, "kv key"))})`).putDoc(
          key,
          null,
          readKvPutOptions(options, kvDeleteKeys),
        ),
    },
  };
}

/** The follow-up belongs to the trace of the attempt that requests it. */
function traced(
  { telemetry }: Needs<"telemetry">,
  attempt: Attempt,
  planned: NewJob | Promise<NewJob>,
): NewJob | Promise<NewJob> {
  if (telemetry === null) return planned;
  return planned instanceof Promise
    ? planned.then((job) => telemetry.followUp(job, attempt))
    : telemetry.followUp(planned, attempt);
}
