/**
 * Cancels one job by id or all that match a filter. Waiting jobs end at once; the workers of running jobs abort their
 * handlers. The change emits a hint for these workers. A hint may be lost, so the change number of each worker is
 * raised too, once per page of jobs (engine/fleet/change-numbers.ts). A job that has completed meanwhile stays
 * completed.
 */
import { callKeys } from "../../engine/calls/call-limit.ts";
import type { CallOptions } from "../../engine/calls/call-limit.ts";
import type { Needs } from "../../engine/services.ts";
import { cancelsChanged } from "../../engine/fleet/change-numbers.ts";
import { hasMark } from "../../model/durable/durable-marks.ts";
import { isTerminal, liveStates } from "../../model/job/job-state.ts";
import { cancelChanges } from "../../model/job/operate.ts";
import { checkOptions, invalidOption } from "../../model/option.ts";
import type { JobRecord } from "../../store/records.ts";
import { cancelFlowJob, isFlow } from "../flows/flow-jobs.ts";
import { isMade } from "./job-changes.ts";
import type { JobChanges } from "./job-changes.ts";
import { overStates } from "./job-filter.ts";
import type { JobQuery } from "./job-filter.ts";

/**
 * `signalled`: the job runs, and its worker is asked to abort the handler; or it is a durable run that first undoes its
 * steps.
 */
export type CancelAnswer = "cancelled" | "signalled" | "finished" | "not-found";
/** How often each answer occurred. */
export type Answers<Answer extends string> = Readonly<Record<Answer, number>>;

export interface CancelOptions extends CallOptions {
  /** Kept as the reason of the job's end; "asked" by default. */
  reason?: string;
  /** For a cancel by filter: called after each page of jobs with the counts so far. */
  onProgress?: (soFar: Answers<CancelAnswer>) => void;
}

const answers = ["cancelled", "signalled", "finished", "not-found"] as const satisfies CancelAnswer[];

export async function cancelJobs(
  needs: Needs<"store" | "log" | "changes" | "reads" | "policies" | "strideMs" | "coder">,
  changes: JobChanges,
  target: string | JobQuery,
  options: CancelOptions,
  isOver: () => boolean,
): Promise<CancelAnswer | Answers<CancelAnswer>> {
  const { reason, onProgress } = readOptions(options);
  let workers = new Set<string>();

  const cancelOne = async (first: JobRecord): Promise<CancelAnswer> => {
    let owner: string | null = null;
    const isEnding = hasMark(first.durable, "isEnding") && !isTerminal(first.state);
    const answer = await changes.changeAsRead(first, (record) => {
      const policy = needs.policies.read(record.policy, record.queue);
      ({ owner } = record);
      return cancelChanges({ ...record, policy }, reason, needs.strideMs);
    });
    if (answer.kind === "gone") return "not-found";
    // A run that undoes its steps ends by itself.
    if (!isMade(answer)) return isEnding && answer.kind === "changed" ? "signalled" : "finished";
    if (answer.state === "cancelled") return "cancelled";
    if (answer.state === "running" && owner !== null) workers.add(owner);
    return "signalled";
  };

  const announce = (): Promise<void> => {
    const changed = workers;
    workers = new Set();
    return cancelsChanged(needs, changed);
  };

  if (typeof target === "string") {
    const record = await changes.read(target);
    if (record === null) return "not-found";
    if (isFlow(record)) return cancelFlowJob(needs, record, reason);
    const answer = await cancelOne(record);
    await announce();
    return answer;
  }
  return changes.each(overStates(target, liveStates), answers, cancelOne, isOver, {
    pageEnded: async (soFar) => {
      await announce();
      onProgress?.(soFar);
    },
  });
}

/** Cancels a job unless it is running or has ended. */
export async function cancelWaiting(
  needs: Needs<"policies" | "strideMs">,
  changes: JobChanges,
  id: string,
  reason: string,
): Promise<void> {
  const found = await changes.read(id);
  if (found === null) return;
  await changes.changeAsRead(found, (record) =>
    cancelChanges(
      { ...record, policy: needs.policies.read(record.policy, record.queue) },
      reason,
      needs.strideMs,
    ).filter(({ states }) => !states.includes("running")),
  );
}

function readOptions(given: CancelOptions): CancelOptions {
  const options = checkOptions(given, "cancel", ["reason", "onProgress", ...callKeys]) as CancelOptions;
  if (options.reason !== undefined && typeof options.reason !== "string")
    throw invalidOption("cancel: the reason must be a text.");
  if (options.onProgress !== undefined && typeof options.onProgress !== "function")
    throw invalidOption("cancel: onProgress must be a function.");
  return options;
}
