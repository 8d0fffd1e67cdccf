/**
 * Members of flows: when a member starts, the results that its input refers to are read and put into it. A member that
 * stands for a list runs no handler, but makes a job of each item.
 */
import type { AnyJob, JobDefinition } from "../../engine/submit/job-definition.ts";
import type { Needs } from "../../engine/services.ts";
import { optionsOfItem } from "../../engine/flows/flow-options.ts";
import { planItems } from "../../engine/flows/grow-flow.ts";
import { flowMetaOf } from "../../engine/flows/members.ts";
import { readMemberResult } from "../../engine/flows/part-results.ts";
import { pickPath, putValues } from "../../engine/flows/result-refs.ts";
import { roundOf } from "../../model/job/attempt-log.ts";
import { MillraceError } from "../../model/error.ts";
import { idOfPath, rootOf } from "../../model/flow/flow-meta.ts";
import type { FlowMeta, ResultRef } from "../../model/flow/flow-meta.ts";
import { nodesMax } from "../../model/flow/graph.ts";
import type { Attempt } from "./attempt.ts";
import { EffectsDraft } from "./effects-draft.ts";
import { tracedGrowth } from "./effects-scope.ts";

type FlowInputNeeds = Needs<"coder" | "reads">;

/** Null for a job outside flows. */
export function flowOf({ isMember, job }: Attempt): FlowMeta | null {
  return isMember ? flowMetaOf(job) : null;
}

/** Puts the results into the input that refers to them. */
export async function completeInput(
  needs: FlowInputNeeds,
  { job }: Attempt,
  input: unknown,
  refs: readonly ResultRef[],
): Promise<unknown> {
  const root = rootOf(job.id) as string;
  const results = new Map<string, Promise<unknown>>();
  const read = (ref: ResultRef): Promise<unknown> => {
    const known = results.get(ref.of) ?? resultOf(needs, idOfPath(root, ref.of), ref.of);
    results.set(ref.of, known);
    return known;
  };
  const values = await Promise.all(
    refs.map(async (ref) => ({ at: ref.at, value: pickPath(await read(ref), ref.path) })),
  );
  return putValues(input, values);
}

async function resultOf(needs: FlowInputNeeds, id: string, of: string): Promise<unknown> {
  const record = await needs.reads.add(id);
  if (record?.state !== "completed")
    throw new MillraceError("result-expired", `The result of ${JSON.stringify(of)} is not there any more.`);
  return readMemberResult(needs, record);
}

/** Makes a job of each item. The settle of this attempt adds them to the flow. */
export async function expandList(
  needs: Needs<"reads" | "planner" | "telemetry">,
  attempt: Attempt,
  definition: JobDefinition,
  expands: NonNullable<FlowMeta["expands"]>,
  items: unknown,
): Promise<void> {
  const { id } = attempt.job;
  if (!Array.isArray(items))
    throw new MillraceError(
      "invalid-input",
      `A map needs a list, and ${id} was given ${items === null ? "null" : typeof items}.`,
    );
  if (items.length >= nodesMax)
    throw new MillraceError(
      "invalid-flow",
      `A map takes at most ${nodesMax - 1} items, not ${items.length}.`,
    );
  if (items.length === 0) return;
  const part = id.slice(0, id.lastIndexOf("."));
  const growing = await planItems(needs, part, {
    ...{ job: definition as AnyJob, items, options: optionsOfItem(expands) },
    isAgain: roundOf(attempt.job.attempts) > 1,
  });
  (attempt.effects ??= new EffectsDraft()).addGrowth(() =>
    Promise.resolve(tracedGrowth(needs, attempt, growing)),
  );
}
