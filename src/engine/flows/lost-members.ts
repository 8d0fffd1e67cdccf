/**
 * Members whose records could not be read. A store keeps such a record as unreadable, and then nobody ends the job: its
 * flow would wait for it for good. After each walk of the index audit the flows of unreadable records are read, and a
 * member that had not ended comes to its end as failed (`record-unreadable`): a job that stands in for it takes its id,
 * its place in the flow and the edges that others know of, and is ended, so that all that depends on it goes on by rule
 * R4.
 *
 * The counts of its flow show whether it had ended: these count more members that live than there are.
 */
import type { Finish } from "../../model/job/change.ts";
import type { EndReason } from "../../model/job/end-reason.ts";
import { targetOf, withTarget } from "../../model/flow/edge.ts";
import { idOfPath, memberTag, pathOfId, placeOfId, rootOf } from "../../model/flow/flow-meta.ts";
import { edgeToFlow } from "../../model/flow/graph.ts";
import type { Part } from "../../model/flow/graph.ts";
import { liveMembers } from "../../model/flow/decide-flow.ts";
import { newWaits, readWaits } from "../../model/flow/flow-waits.ts";
import { mintedPartition } from "../../model/job/job-id.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import type { JobRecord } from "../../store/records.ts";
import { deferredPut } from "../../store/rules/flow/arrive.ts";
import { allUnreadable } from "../docs/all-unreadable.ts";
import type { Needs } from "../services.ts";
import { allMembers, cancelBelow, changeAsRead, flowMetaOf, isStandIn, membersPage } from "./members.ts";
import { partJob } from "./plan-flow.ts";

type LostMembersNeeds = Needs<"log" | "store" | "policies" | "changes" | "reads" | "strideMs">;

const reason: EndReason<"failed"> = "record-unreadable";
/** A flow whose members end while they are counted is counted again, so often; then by the next walk. */
const countsMax = 5;

/** @returns how many members came to their end. */
export async function endLostMembers(needs: LostMembersNeeds): Promise<number> {
  let ended = 0;
  for await (const { id } of allUnreadable(needs.store))
    if (id !== null && (await endLost(needs, id))) ended += 1;
  return ended;
}

async function endLost(needs: LostMembersNeeds, id: string): Promise<boolean> {
  if (placeOfId(id) === null) {
    if (mintedPartition(id) !== null) await deleteFlow(needs, id);
    return false;
  }
  const record = (await needs.reads.add(id)) ?? (await standIn(needs, id));
  if (record === null || !isStandIn(record) || isTerminal(record.state)) return false;
  const next: Finish = { to: "failed", event: "failed", reason, result: null, keepMs: null };
  const answer = await changeAsRead(needs, record, [{ states: ["blocked"], next }]);
  return answer.kind === "ok";
}

/** Of a flow that is lost itself the members go, as of one that was deleted. */
async function deleteFlow(needs: Needs<"store" | "reads">, id: string): Promise<void> {
  if ((await needs.reads.add(id)) !== null) return;
  if ((await membersPage(needs, id, { cursor: null })).jobs.length > 0)
    await needs.store.putDocs([deferredPut(id)]);
}

async function standIn(needs: LostMembersNeeds, id: string): Promise<JobRecord | null> {
  const within = id.slice(0, id.lastIndexOf("."));
  const { isLost, part, edges } = await lookAround(needs, id, within);
  if (!isLost || part === undefined) return null;
  // A part has nodes of its own, which nothing waits for any more.
  await cancelBelow(needs, id, { reason });
  await needs.store.submit([
    {
      jobs: [
        {
          ...partJob(id, pathOfId(id)),
          tags: [memberTag(rootOf(id) ?? id)],
          flow: within,
          edges: [edgeToFlow(part), ...edges],
          waits: newWaits({ need: 1 }),
        },
      ],
      isRepeat: true,
    },
  ]);
  return needs.reads.add(id);
}

interface Around {
  /** The flow counts a member as living that is not there. */
  readonly isLost: boolean;
  readonly part?: Part | undefined;
  /** To those that say that they come after it. */
  readonly edges: readonly string[];
}

async function lookAround(needs: Needs<"store" | "reads">, id: string, within: string): Promise<Around> {
  const root = rootOf(id) ?? id;
  for (let count = 0; count < countsMax; count++) {
    const before = await needs.reads.add(within);
    const edges: string[] = [];
    let live = 0;
    for await (const page of allMembers(needs, root))
      for (const member of page) {
        if (member.flow === within && !isTerminal(member.state)) live += 1;
        for (const parent of flowMetaOf(member).parents ?? [])
          if (idOfPath(root, targetOf(parent)) === id)
            edges.push(withTarget(parent, member.id.slice(within.length + 1)));
      }
    const flow = await needs.reads.add(within);
    if (flow === null || flow.waits === null) break;
    // Each end, each replay and each node that is added changes what the flow counts.
    if (flow.waits === before?.waits)
      return { isLost: liveMembers(readWaits(flow.waits)) > live, part: flowMetaOf(flow).part, edges };
  }
  return { isLost: false, edges: [] };
}
