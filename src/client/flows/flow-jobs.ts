/**
 * The verbs of jobs on a flow or on a member of one. A replay of a member has to open its flow again, and a member is
 * kept as long as its flow.
 */
import type { Needs } from "../../engine/services.ts";
import { finishDeferredWork } from "../../engine/flows/deferred-work.ts";
import { cancelWhole, readFlow, replayNodes } from "../../engine/flows/requested-changes.ts";
import { isMillraceError, MillraceError } from "../../model/error.ts";
import { flowQueue, pathOfId, rootOf } from "../../model/flow/flow-meta.ts";
import { isTerminal, terminalStates } from "../../model/job/job-state.ts";
import { deleteChange } from "../../model/job/operate.ts";
import type { OperatorChange } from "../../model/job/operate.ts";
import type { JobRecord } from "../../store/records.ts";
import type { CancelAnswer } from "../jobs/cancel-jobs.ts";
import type { RetryAnswer } from "../jobs/jobs.ts";

type MemberReplaysNeeds = Needs<"store" | "changes" | "reads" | "log" | "policies" | "strideMs" | "coder">;

type Standing = Pick<JobRecord, "queue" | "flow">;

export const isFlow = ({ queue }: Standing): boolean => queue === flowQueue;

export const isOfFlow = (record: Standing): boolean => isFlow(record) || record.flow !== null;

/** @param record a flow or a part of one. */
export async function cancelFlowJob(
  needs: MemberReplaysNeeds,
  record: JobRecord,
  reason: string | undefined,
): Promise<CancelAnswer> {
  if (isTerminal(record.state)) return "finished";
  await cancelWhole(needs, record, { reason: reason ?? "asked" });
  const after = await needs.reads.add(record.id);
  return after?.state === "cancelled" ? "cancelled" : "signalled";
}

/** A flow is deleted with its members once it has ended; a member is never deleted alone. */
export function deleteChangeOf(record: Standing): OperatorChange | null {
  if (record.flow !== null) return null;
  return isFlow(record) ? { ...deleteChange, states: terminalStates } : deleteChange;
}

/**
 * Deletes the members of a flow that was deleted. What is left of them when that fails is left to the duties.
 *
 * @returns "deleting" if some are left.
 */
export async function deleteMembersNow(
  needs: MemberReplaysNeeds,
  id: string,
): Promise<"deleted" | "deleting"> {
  try {
    return (await finishDeferredWork(needs, id)) ? "deleted" : "deleting";
  } catch (error) {
    needs.log.debug("the members of a deleted flow are left to the duties", { id, error });
    return "deleting";
  }
}

/**
 * The placement of a member was written with its flow and is used when it is freed, so a rank written earlier would be
 * lost.
 */
export function keepsPriority(id: string): MillraceError {
  return new MillraceError(
    "job-changed",
    `The job ${JSON.stringify(id)} waits for others of its flow; its priority can be changed once it is freed.`,
  );
}

/** The replays of members that were asked for in one flush, joined into one replay per flow. */
export class MemberReplays {
  readonly #needs: MemberReplaysNeeds;
  readonly #asked = new Map<string, { readonly paths: string[]; readonly answer: Promise<RetryAnswer> }>();

  constructor(needs: MemberReplaysNeeds) {
    this.#needs = needs;
  }

  /** For a flow, replays what failed in it. For a member, replays its node. */
  retry(record: JobRecord): Promise<RetryAnswer> {
    if (record.flow === null) return this.#replay(record, undefined);
    if (!isTerminal(record.state)) return Promise.resolve("unfinished");
    const root = rootOf(record.id) ?? record.flow;
    const asked = this.#asked.get(root) ?? this.#ask(root);
    asked.paths.push(pathOfId(record.id));
    return asked.answer;
  }

  #ask(root: string): { readonly paths: string[]; readonly answer: Promise<RetryAnswer> } {
    const paths: string[] = [];
    const answer = Promise.resolve().then(async () => {
      this.#asked.delete(root);
      return this.#replay(await readFlow(this.#needs, root), paths);
    });
    const asked = { paths, answer };
    this.#asked.set(root, asked);
    return asked;
  }

  async #replay(flow: JobRecord, nodes: readonly string[] | undefined): Promise<RetryAnswer> {
    try {
      const asked = { withRest: false, ...(nodes === undefined ? {} : { nodes }) };
      const { runs } = await replayNodes(this.#needs, flow, asked);
      return runs === 0 ? "unfinished" : "retried";
    } catch (error) {
      if (isMillraceError(error, "flow-not-found")) return "not-found";
      if (isMillraceError(error, "job-changed") || isMillraceError(error, "flow-closed")) return "unfinished";
      throw error;
    }
  }
}
