/**
 * The job that a flow's `onFailed` names. It is planned with the flow and kept in its meta, so any process can make it.
 * The deferred work that decides the flow makes it before the flow ends as failed. Its id follows from the flow's: if
 * the process dies between the two, the next one meets the job that is there.
 */
import { MillraceError } from "../../model/error.ts";
import { memberTag, pathOfId } from "../../model/flow/flow-meta.ts";
import { readAttemptLog } from "../../model/job/attempt-log.ts";
import { deriveId, mintedPartition } from "../../model/job/job-id.ts";
import type { JobRecord, NewJob } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import type { JobDefinition } from "../submit/job-definition.ts";
import { readTemplate, writeTemplate } from "../submit/job-template.ts";
import type { JobPlanner } from "../submit/job-planner.ts";
import { flowMetaOf } from "./members.ts";

/** The input of a flow's `onFailed` job. */
export interface FailedFlow {
  /** The id of the flow. */
  readonly id: string;
  readonly name: string;
  /** The nodes that failed or expired, the first to end first; at most 20. */
  readonly nodes: readonly FailedNode[];
}

export interface FailedNode {
  /** Its name in the flow; inside a part after the part's, with a dot. */
  readonly node: string;
  /** The id and the name of its job. */
  readonly id: string;
  readonly name: string;
  readonly state: "failed" | "expired";
  readonly reason: string;
  /** What its last attempt threw; null if no attempt failed. */
  readonly error: { readonly name: string; readonly message: string } | null;
}

const nodesMax = 20;
const readMax = 100;
const scanMax = 10_000;
/** A repeat means the job that is there. */
const digest = "failed-flow";

export function planOnFailed(planner: JobPlanner, job: JobDefinition<FailedFlow>, flow: string): NewJob {
  const what = `flow ${JSON.stringify(flow)}: onFailed`;
  const planned = planner.planTemplate({ job: job as JobDefinition, input: null, options: undefined }, what);
  if (planned.gates === undefined) return planned;
  throw new MillraceError(
    "invalid-option",
    `${what}: the job ${JSON.stringify(job.name)} has limits or budgets, which whoever makes the job may not know. Give one without, and let it enqueue a second one.`,
  );
}

/** As the meta of the flow keeps it. */
export const keptOnFailed = (job: NewJob): string => writeTemplate(job);

/** The nodes that failed or expired, the first to end first. */
export async function failedNodes(needs: Needs<"store">, id: string): Promise<readonly JobRecord[]> {
  const filter = { tag: memberTag(id), states: ["failed", "expired"] as const };
  const page = await needs.store.findJobs({ filter, max: readMax, scanMax, cursor: null });
  return page.jobs
    .filter((job) => flowMetaOf(job).part === undefined)
    .sort((one, other) => (one.endedAt ?? 0) - (other.endedAt ?? 0));
}

/** @param kept the job in the meta of the flow. */
export async function makeOnFailed(
  needs: Needs<"store" | "coder" | "log">,
  { id, name, createdAt }: JobRecord,
  kept: string,
): Promise<void> {
  const failed = await failedNodes(needs, id);
  const input: FailedFlow = { id, name, nodes: failed.slice(0, nodesMax).map(nodeOf) };
  const own = deriveId({ of: `failed\n${id}`, at: createdAt, partition: mintedPartition(id) ?? 0 });
  const job = { ...readTemplate(kept), id: own, digest, input: needs.coder.encode(input, "input") };
  const [answer] = await needs.store.submit([{ jobs: [job] }]);
  // The flow ends all the same: it must not wait until somebody opens a queue again.
  if (answer?.kind === "refused")
    needs.log.error("the onFailed job of a flow was refused", {
      ...{ id, name, job: job.name, reason: answer.reason },
    });
}

function nodeOf({ id, name, state, reason, attempts }: JobRecord): FailedNode {
  const error = readAttemptLog(attempts).entries.at(-1)?.error;
  return {
    ...{ node: pathOfId(id), id, name, state: state as FailedNode["state"], reason: reason ?? state },
    error: error === undefined ? null : { name: error.name, message: error.message },
  };
}
