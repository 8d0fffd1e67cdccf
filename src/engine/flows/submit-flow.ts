/**
 * Submitting a flow: all of its nodes or none. A repeat makes no second flow: with `repeatOf` it has the id of the flow
 * that the earlier try may have made, with a key the id that follows from the key.
 *
 *   the flow of the key   is there          it is answered, if it has the same nodes and inputs
 *                         is gone           it is made, unless members of an earlier one are left
 *                         is being deleted  its members are deleted first: deferred work under its id says so
 */
import { MillraceError } from "../../model/error.ts";
import { idOfKey } from "../../model/flow/flow-meta.ts";
import type { SubmitAnswer, SubmitHow, SubmitUnit } from "../../store/operations.ts";
import { deferredKind } from "../../store/rules/flow/arrive.ts";
import type { DocPut } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import { refusalError } from "../submit/refusal-error.ts";
import { finishDeferredWork } from "./deferred-work.ts";
import type { AnyFlow } from "./flow.ts";
import { flowMetaOf } from "./members.ts";
import { planFlow } from "./plan-flow.ts";
import type { FlowJobOptions, PlannedFlow } from "./plan-flow.ts";

type SubmitFlowNeeds = Needs<
  "store" | "coder" | "ids" | "changes" | "reads" | "planner" | "log" | "policies" | "strideMs"
>;

export interface SubmittedFlow {
  readonly id: string;
  readonly how: SubmitHow;
}

type Send = (unit: SubmitUnit) => Promise<SubmitAnswer>;

/** How often a key is tried whose flow others delete meanwhile. */
const triesMax = 10;

/** @param options `id` only for a repeat of an earlier try. */
export async function submitFlow(
  needs: SubmitFlowNeeds,
  flow: AnyFlow,
  options: Omit<FlowJobOptions, "invokedBy">,
  send: Send,
): Promise<SubmittedFlow> {
  const { key, id: repeated } = options;
  const id = key === undefined ? repeated : idOfKey(needs.ids.placement, key);
  const planned = await planFlow(needs, flow, { ...options, ...(id === undefined ? {} : { id }) });
  if (key !== undefined) return submitOnce(needs, planned, key, send);
  const answer = await send(repeated === undefined ? planned : { ...planned, isRepeat: true });
  return accepted(planned, answer);
}

async function submitOnce(
  needs: SubmitFlowNeeds,
  planned: PlannedFlow,
  key: string,
  send: Send,
): Promise<SubmittedFlow> {
  const { id, jobs } = planned;
  const docs = [isNotDeleted(id)];
  for (let tries = 0; tries < triesMax; tries++) {
    const there = await needs.reads.add(id);
    if (there !== null) {
      if (flowMetaOf(there).content !== jobs[0]?.digest) throw keyConflict(key, id);
      return { id, how: "existing" };
    }
    const answer = await send({ jobs, docs });
    if (answer.kind === "refused" && answer.reason === "id-differs") throw keyConflict(key, id);
    if (answer.kind === "ok" || answer.reason !== "doc-changed") return accepted(planned, answer);
    if (!(await finishDeferredWork(needs, id))) break;
  }
  throw new MillraceError(
    "flow-closed",
    `The flow ${JSON.stringify(id)} with the key ${JSON.stringify(key)} is being deleted, and not all of its members are gone yet; try again.`,
  );
}

/** Refuses a submit under a key as long as members of an earlier flow with that key are left. */
export function isNotDeleted(id: string): DocPut {
  return { kind: deferredKind, id, body: null, guard: "absent" };
}

function keyConflict(key: string, id: string): MillraceError {
  return new MillraceError(
    "id-conflict",
    `A flow with the key ${JSON.stringify(key)} exists (${id}) with other nodes or inputs.`,
  );
}

function accepted({ id, jobs }: PlannedFlow, answer: SubmitAnswer): SubmittedFlow {
  if (answer.kind === "refused") throw refusalError(answer, jobs);
  return { id, how: answer.hows[0] ?? "created" };
}
