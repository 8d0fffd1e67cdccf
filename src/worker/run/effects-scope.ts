/**
 * Collects the effects of a handler: those for the completion of its job, or those for its final failure. They are
 * planned when they are requested, so that a wrong input is refused at the call, and applied with the end.
 */
import { MillraceError } from "../../model/error.ts";
import { idOfKey } from "../../model/flow/flow-meta.ts";
import { checkName } from "../../model/name.ts";
import type { Unit } from "../../model/routing/placement.ts";
import type { JobIds } from "../../engine/submit/job-ids.ts";
import { anySubmission, checkDefinition } from "../../engine/submit/job-definition.ts";
import type { JobDefinition } from "../../engine/submit/job-definition.ts";
import type { Needs } from "../../engine/services.ts";
import type { EnqueueOptions } from "../../engine/submit/job-options.ts";
import type { AnyFlow } from "../../engine/flows/flow.ts";
import type { Growing } from "../../engine/flows/grow-flow.ts";
import { planFlow } from "../../engine/flows/plan-flow.ts";
import { isNotDeleted } from "../../engine/flows/submit-flow.ts";
import { readEffectFlow } from "../../engine/flows/submit-options.ts";
import type { EffectFlowOptions } from "../../engine/flows/submit-options.ts";
import { kvDeleteKeys, kvPut, kvPutKeys, readKvPutOptions, readKvWrites } from "../../engine/docs/kv.ts";
import type { KvPutOptions } from "../../engine/docs/kv.ts";
import type { DocPut, Effects, NewJob } from "../../store/records.ts";
import { withControl } from "../control.ts";
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
  /**
   * A flow, submitted in the same step as this job's end: all of its nodes or none. An invalid graph is refused at the
   * call.
   *
   * @example
   *   handler(upload, async ({ submit, input }) => void submit(thumbnailsOf(input), { tags: ["uploads"] }));
   *
   * @returns the id of the flow.
   */
  readonly submit: (flow: AnyFlow, options?: EffectFlowOptions) => string;
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
  /** Names that lie in another partition are refused where they are given: no attempt of this job could write them. */
  const checkPlace = (unit: Effects): void => refuseMisplaced(needs.ids, attempt.job.id, unit);
  const putDoc = (call: string, put: DocPut): void => {
    const effects = draft(call);
    checkPlace({ docs: [put] });
    effects.putDocs([put]);
  };
  return {
    enqueue: (definition, input, options) => {
      checkDefinition(definition, "enqueue");
      if (options?.repeatOf !== undefined)
        throw new MillraceError(
          "invalid-option",
          "enqueue: a handler's follow-up is made once; repeatOf is not for it.",
        );
      const id = options?.id ?? mintId();
      const what = `enqueue(${JSON.stringify(definition.name)})`;
      const writes = options?.kv === undefined ? [] : readKvWrites(needs.coder, [options.kv], what);
      const effects = draft(what);
      const planned = needs.planner.plan(anySubmission(definition, input, options), () => id);
      const checked = (made: NewJob): NewJob => {
        checkPlace({ jobs: [made] });
        return made;
      };
      checkPlace({ docs: writes });
      const job = planned instanceof Promise ? planned.then(checked) : checked(planned);
      effects.addJob(traced(needs, attempt, job));
      effects.putDocs(writes);
      return id;
    },
    submit: (flow, options = {}) => {
      const planning = readEffectFlow(flow, options);
      const { key } = planning;
      const id = key === undefined ? mintId() : idOfKey(needs.ids.placement, key);
      checkBeside(needs, { id, key, beside: attempt.job.id });
      const planned = planFlow(needs, flow, { ...planning, id });
      const effects = draft(`submit(${JSON.stringify(flow.name)})`);
      effects.addFlow(planned.then(({ jobs }) => jobs.map((job) => traced(needs, attempt, job))));
      if (key !== undefined) effects.putDocs([isNotDeleted(id)]);
      return id;
    },
    kv: {
      put: (key, value, options) =>
        putDoc(
          `kv.put(${JSON.stringify(checkName(key, "kv key"))})`,
          kvPut(key, needs.coder.encode(value, "kv value"), readKvPutOptions(options, kvPutKeys)),
        ),
      delete: (key, options) =>
        putDoc(
          `kv.delete(${JSON.stringify(checkName(key, "kv key"))})`,
          kvPut(key, null, readKvPutOptions(options, kvDeleteKeys)),
        ),
    },
  };
}

/**
 * Refuses what lies in another partition than the job with whose end it is written. The job is not tried again for it:
 * another attempt would give the same names.
 */
export function refuseMisplaced(ids: Pick<JobIds, "checkBeside">, home: string, unit: Unit): void {
  try {
    ids.checkBeside(home, unit);
  } catch (error) {
    throw withControl(error as Error, { kind: "unrecoverable" });
  }
}

/** A flow with a key lies where the key says, and the step that ends a job writes in the partition of that job. */
function checkBeside(
  { ids: { placement } }: Needs<"ids">,
  { id, key, beside }: { readonly id: string; readonly key: string | undefined; readonly beside: string },
): void {
  if (placement === null || key === undefined || placement.ofId(id) === placement.ofId(beside)) return;
  throw new MillraceError(
    "placement-conflict",
    `The flow with the key ${JSON.stringify(key)} and the job ${beside} lie in different partitions of this store, so they cannot be written in one step. Leave the key out: a handler's flow is made once, with the end of its job.`,
  );
}

/** The follow-up belongs to the trace of the attempt that requests it. */
function traced<Planned extends NewJob | Promise<NewJob>>(
  { telemetry }: Needs<"telemetry">,
  attempt: Attempt,
  planned: Planned,
): Planned {
  if (telemetry === null) return planned;
  const follow = (job: NewJob): NewJob => telemetry.followUp(job, attempt);
  return (planned instanceof Promise ? planned.then(follow) : follow(planned)) as Planned;
}

/** Nodes that are added to a flow belong to the trace of the attempt that adds them, the items of a map to its own. */
export function tracedGrowth(needs: Needs<"telemetry">, attempt: Attempt, growing: Growing): Growing {
  return needs.telemetry === null
    ? growing
    : { ...growing, jobs: growing.jobs.map((job) => traced(needs, attempt, job)) };
}
