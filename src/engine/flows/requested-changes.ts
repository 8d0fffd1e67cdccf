/**
 * Changes of a whole flow that an operator requests. A request is a due document until it is carried out, so that any
 * process can go on where another one ended. The process that makes a request carries it out at once. If it dies, a
 * duty does.
 *
 *   flow-cancel   the flow takes no more nodes; what has not ended is cancelled, until nothing is left to be
 *   flow-replay   nodes run again, and what waits for them waits again (replay-flow.ts)
 */
import { cancelKind, replayKind } from "../../model/flow/requested-change.ts";
import { MillraceError } from "../../model/error.ts";
import { flowQueue } from "../../model/flow/flow-meta.ts";
import type { ReplayAsked } from "../../model/flow/plan-replay.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import type { Doc, JobRecord } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import { cancelBelow, close } from "./members.ts";
import type { CancelHow } from "./members.ts";
import { decideNow } from "./deferred-work.ts";
import type { DeferredWorkEnd } from "./deferred-work.ts";
import { makeReplayPlan, plannedReplay, replayFlow } from "./replay-flow.ts";

type RequestNeeds = Needs<"store" | "log" | "changes" | "reads" | "policies" | "strideMs">;

/** A part is no flow: it is cancelled and its nodes are replayed by their own ids. */
export async function readFlow(needs: Needs<"reads">, id: string): Promise<JobRecord> {
  const record = await needs.reads.add(id);
  if (record === null || record.queue !== flowQueue || record.flow !== null)
    throw new MillraceError("flow-not-found", `There is no flow ${JSON.stringify(id)}.`);
  return record;
}

/**
 * Makes a request and carries it out. If there is a request of the same kind, whose process has died, that one is
 * carried out before: half of a replay would leave nodes held back for good.
 */
async function requestChange(needs: RequestNeeds, kind: string, id: string, body: object): Promise<void> {
  const put = { kind, id, body: JSON.stringify(body), due: { inMs: 0 }, guard: "absent" as const };
  for (;;) {
    const [answer] = await needs.store.putDocs([put]);
    if (answer?.kind === "ok") {
      const doc: Doc = { kind, id, version: answer.version, body: put.body, dueAt: 0, expiresAt: null };
      await carryOut(needs, doc);
      return;
    }
    const { docs } = await needs.store.readDocs({ kind, ids: [id] });
    for (const doc of docs) await carryOut(needs, doc);
  }
}

/**
 * Cancels a flow, or a part of one, that has not ended, and brings it to its end if none of its nodes runs. If that
 * fails half-way, the documents that say what is left are there, and a duty does it.
 */
export async function cancelWhole(
  needs: RequestNeeds & Needs<"coder">,
  record: JobRecord,
  how: CancelHow,
): Promise<void> {
  if (isTerminal(record.state)) return;
  await requestChange(needs, cancelKind, record.id, how);
  try {
    await decideNow(needs, record.id);
  } catch (error) {
    needs.log.debug("the end of a cancelled flow is left to the duties", { id: record.id, error });
  }
}

/** Runs nodes of a flow again. @returns how many run again, and how many wait for them again. */
export async function replayNodes(
  needs: RequestNeeds,
  flow: JobRecord,
  asked: ReplayAsked,
): Promise<{ readonly runs: number; readonly waits: number }> {
  // Only to refuse what cannot be, before anything is written: what is done is planned once the request is written.
  const plan = await makeReplayPlan(needs, flow, asked);
  if (plan.runs.length > 0) await requestChange(needs, replayKind, flow.id, asked);
  return { runs: plan.runs.length, waits: plan.waits };
}

const requests: Readonly<Record<string, (needs: RequestNeeds, doc: Doc) => Promise<string>>> = {
  [cancelKind]: cancelFlow,
  [replayKind]: replayFlow,
};

/** What the duty does with requests that are due: those whose process has died. */
export function carryOutAll(
  needs: RequestNeeds,
  docs: readonly Doc[],
): Promise<PromiseSettledResult<DeferredWorkEnd>[]> {
  return Promise.allSettled(docs.map((doc) => carryOut(needs, doc)));
}

/** Carries a request out and deletes its document. */
async function carryOut(needs: RequestNeeds, given: Doc): Promise<DeferredWorkEnd> {
  const doc = given.kind === replayKind ? await plannedReplay(needs, given) : given;
  if (doc === null) return { outcome: "settled" };
  const outcome = (await requests[doc.kind]?.(needs, doc)) ?? "unknown";
  const { kind, id, version } = doc;
  await needs.store.putDocs([{ kind, id, body: null, guard: { version } }]);
  return { outcome };
}

async function cancelFlow(
  needs: Needs<"store" | "log" | "changes" | "reads" | "policies" | "strideMs">,
  { id, body }: Doc,
): Promise<string> {
  const how = JSON.parse(body) as CancelHow;
  if (!(await close(needs, id, how.reason))) return "settled";
  await cancelBelow(needs, id, how);
  return "cancelled";
}
