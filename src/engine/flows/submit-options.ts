/** The options with which a flow is submitted: by an application, or by a handler as an effect of its job's end. */
import type { FailureMode } from "../../model/flow/graph.ts";
import { checkName } from "../../model/name.ts";
import { checkOptions, invalidOption } from "../../model/option.ts";
import { readEnqueueOptions } from "../submit/job-options.ts";
import type { RetentionOptions } from "../submit/job-options.ts";
import { Flow } from "./flow.ts";
import { checkFailureMode } from "./flow-options.ts";
import type { FlowJobOptions } from "./plan-flow.ts";

export interface SubmitFlowOptions {
  /**
   * Makes the flow once: a second submit with this key answers the flow that is there, as long as it is kept. If that
   * one has other nodes or inputs, the submit is refused with `id-conflict`.
   *
   * @example
   *   await mill.submit(report, { key: "report-2026-10" });
   *   await mill.flows.keyed("report-2026-10").result(); // in any process
   */
  key?: string;
  /**
   * The id that a submit with an unknown outcome was to make (`error.ids[0]`): repeats that submit. If it had happened,
   * its flow is answered; else the flow is made now, under that id.
   */
  repeatOf?: string;
  /** What the failure of a node means. Default: the value of the flow, else "isolate". */
  failureMode?: FailureMode;
  tags?: readonly string[];
  /** How long the flow and its members are kept after it has ended. */
  retention?: RetentionOptions;
}

/** A handler's flow is made once, with the end of its job. */
export type EffectFlowOptions = Omit<SubmitFlowOptions, "repeatOf">;

export const submitKeys: readonly string[] = ["key", "repeatOf", "failureMode", "tags", "retention"];

/** Also checks that it is a flow. @returns how it is planned. */
export function readSubmitOptions(given: unknown, options: SubmitFlowOptions): FlowJobOptions {
  if (!(given instanceof Flow)) throw invalidOption("submit: give what flow(...) returned.");
  const what = `submit of flow ${JSON.stringify(given.name)}`;
  checkOptions(options, what, submitKeys);
  const { key, failureMode = given.failureMode ?? "isolate", ...shared } = options;
  if (key !== undefined && options.repeatOf !== undefined)
    throw invalidOption(`${what}: give either key or repeatOf, not both; a key repeats by itself.`);
  const { policy, tags, repeatOf } = readEnqueueOptions(shared, what);
  return {
    failureMode: checkFailureMode(failureMode, `${what}: failureMode`),
    policy,
    ...(tags === undefined ? {} : { tags }),
    ...(key === undefined ? {} : { key: checkName(key, `${what}: key`) }),
    ...(repeatOf === undefined ? {} : { id: repeatOf }),
  };
}

export function readEffectFlow(given: unknown, options: EffectFlowOptions): FlowJobOptions {
  if ((options as SubmitFlowOptions).repeatOf !== undefined)
    throw invalidOption("submit: a handler's flow is made once; repeatOf is not for it.");
  return readSubmitOptions(given, options);
}
