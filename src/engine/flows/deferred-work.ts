/**
 * Deferred work of flows: what the step that ended a job left to be finished (rule R4 of the store contract). The
 * document says only which job it is about. What is to be done follows from the present state of that job. So doing it
 * twice does no harm, and if a process dies, the next one does it. The document is deleted after the work is done, and
 * only if nobody has written a later version of it.
 *
 *   the job                                      what is done
 *   is gone                                      the flow was pruned or deleted: so are its members
 *   has ended, not gone along all its edges      it goes along the next ones
 *   is a durable run that has ended              what it has invoked is cancelled
 *   is a flow or a part                          the model decides whether it has ended; its rest may be cancelled
 *   is a flow with onFailed that fails           the job is made, and then it ends (failed-flow.ts)
 *   is a flow that a durable run invoked         its end is appended to the journal of the run, and then it ends
 *   is a map with a cap                          the next of its items are freed (run-capped-map.ts)
 *   is blocked and can never be freed            it is skipped, and what is lost with it (skip-onward.ts)
 *   was freed and cancels the rest               the parents that have not ended are cancelled
 */
import type { Finish } from "../../model/job/change.ts";
import { readAttemptLog } from "../../model/job/attempt-log.ts";
import type { EndReason } from "../../model/job/end-reason.ts";
import { targetOf } from "../../model/flow/edge.ts";
import { expanderName, flowQueue, idOfPath, memberTag, rootOf } from "../../model/flow/flow-meta.ts";
import type { FlowMeta } from "../../model/flow/flow-meta.ts";
import type { Part } from "../../model/flow/graph.ts";
import { decideFlow } from "../../model/flow/decide-flow.ts";
import { hasMark } from "../../model/durable/durable-marks.ts";
import { capOf } from "../../model/flow/capped-map.ts";
import { readWaits } from "../../model/flow/flow-waits.ts";
import type { Waits } from "../../model/flow/flow-waits.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import { deleteChange } from "../../model/job/operate.ts";
import type { Doc, DocPut, JobRecord } from "../../store/records.ts";
import { deliverEnd, endChildren } from "../durable/children.ts";
import { deferredKind } from "../../store/rules/flow/arrive.ts";
import type { Needs } from "../services.ts";
import { makeOnFailed } from "./failed-flow.ts";
import { uncacheMap, freeNext, rearm } from "./run-capped-map.ts";
import { BlockedMembers, skipOnward } from "./skip-onward.ts";
import {
  allMembers,
  cancelBelow,
  cancelMembers,
  changeAsRead,
  close,
  flowMetaOf,
  goAlong,
  membersPage,
} from "./members.ts";

type DeferredWorkNeeds = Needs<"log" | "store" | "policies" | "changes" | "reads" | "coder" | "strideMs">;

/** What became of one due document. */
export interface DeferredWorkEnd {
  readonly outcome: string;
}

interface Payment extends DeferredWorkEnd {
  /** How often the work itself has written its document again, each time one version higher. */
  readonly renewed: number;
}

/** As often as others may leave more work meanwhile. */
const triesMax = 10;
/** Parts in parts in parts. */
const depthMax = 100;
const partsPageMax = 500;
const partsScanMax = 10_000;
const postponed = "postponed";
const postponedMs = 60_000;
const restReason: EndReason<"cancelled"> = "not-needed";

export async function doDeferredWork(
  needs: DeferredWorkNeeds,
  docs: readonly Doc[],
): Promise<readonly PromiseSettledResult<DeferredWorkEnd>[]> {
  const blocked = new BlockedMembers(needs);
  const ends = await Promise.allSettled(docs.map(async ({ id }) => pay(needs, id, blocked)));
  const puts = docs.flatMap(({ kind, id, version }, at): DocPut[] => {
    const end = ends[at];
    if (end?.status !== "fulfilled") return [];
    // If another process has written the document again meanwhile, its version is higher, and it stays.
    const doc = { kind, id, guard: { version: version + end.value.renewed } };
    const isLater = end.value.outcome === postponed;
    return [isLater ? { ...doc, body: "", due: { inMs: postponedMs } } : { ...doc, body: null }];
  });
  await needs.store.putDocs(puts);
  return ends;
}

/**
 * Does the deferred work of one job now, for a caller that does not wait for a duty: in its process there may be none.
 * @returns false if some of it is left for later.
 */
export async function finishDeferredWork(needs: DeferredWorkNeeds, id: string): Promise<boolean> {
  for (let tries = 0; tries < triesMax; tries++) {
    const { docs } = await needs.store.readDocs({ kind: deferredKind, ids: [id] });
    if (docs.length === 0) return true;
    const [end] = await doDeferredWork(needs, docs);
    if (end?.status === "rejected") throw end.reason;
    if (end?.value.outcome === postponed) return false;
  }
  return false;
}

/**
 * Does the deferred work that decides a flow and its parts, for a caller that has cancelled it: in its process there
 * may be no duties. A node that runs is left to its worker, and then so is the end of the flow.
 */
export async function decideNow(needs: DeferredWorkNeeds, id: string): Promise<void> {
  const root = rootOf(id) ?? id;
  const filter = { queue: flowQueue, tag: memberTag(root), states: ["blocked"] } as const;
  // Each part that ends may decide the one around it.
  for (let tries = 0; tries < depthMax; tries++) {
    const ids = [root];
    let cursor: string | null = null;
    do {
      const page: Awaited<ReturnType<typeof needs.store.findJobs>> = await needs.store.findJobs({
        ...{ filter, max: partsPageMax, scanMax: partsScanMax, cursor },
      });
      ids.push(...page.jobs.map((part) => part.id));
      ({ cursor } = page);
    } while (cursor !== null);
    const docs: Doc[] = [];
    for (let at = 0; at < ids.length; at += partsPageMax)
      docs.push(
        ...(await needs.store.readDocs({ kind: deferredKind, ids: ids.slice(at, at + partsPageMax) })).docs,
      );
    if (docs.length === 0) return;
    const ends = await doDeferredWork(needs, docs);
    for (const end of ends) if (end.status === "rejected") throw end.reason;
  }
}

async function pay(needs: DeferredWorkNeeds, id: string, blocked: BlockedMembers): Promise<Payment> {
  for (let renewed = 0; ;) {
    const record = await needs.reads.add(id);
    if (record !== null && isTerminal(record.state)) renewed += await goAlong(needs, record);
    if (record === null || (isTerminal(record.state) && hasMark(record.durable, "hasChildren")))
      await endChildren(needs, id);
    const outcome = record === null ? await deleteMembers(needs, id) : await decide(needs, record, blocked);
    if (outcome !== null) return { outcome, renewed };
  }
}

/** @returns null if the job has changed meanwhile, so that it is read again. */
async function decide(
  needs: DeferredWorkNeeds,
  record: JobRecord,
  blocked: BlockedMembers,
): Promise<string | null> {
  if (record.waits === null) return "settled";
  const waits = readWaits(record.waits);
  const meta = flowMetaOf(record);
  if (meta.part !== undefined) return decidePart(needs, record, waits, meta.part);
  if (record.state === "blocked" && waits.slack < 0) return skipOnward(needs, record, blocked);
  if (meta.cancelsRest === true && record.state !== "blocked" && waits.need <= 0)
    await cancelParents(needs, record.id, meta);
  return "settled";
}

/** Guarded by the rev that was read, because a replay may have changed the job since. */
async function endAsRead(needs: Needs<"changes">, record: JobRecord, next: Finish): Promise<string | null> {
  const answer = await changeAsRead(needs, record, [{ states: ["blocked"], next }]);
  return answer.kind === "changed" ? null : next.to;
}

async function decidePart(
  needs: DeferredWorkNeeds,
  record: JobRecord,
  waits: Waits,
  part: Part,
): Promise<string | null> {
  const { id, cancelAsked } = record;
  const policy = needs.policies.read(record.policy, record.queue);
  const { cancelReason = null } = readAttemptLog(record.attempts);
  const hasNoList = part.kind === "group" && (await hasFailedToExpand(needs, id));
  const { end, cancelsRest } = decideFlow({ part, waits, policy, cancelAsked, cancelReason, hasNoList });
  const { invokedBy, onFailed } = flowMetaOf(record);
  const to = isTerminal(record.state) ? record.state : end?.to;
  if (invokedBy !== undefined && to !== undefined) await deliverEnd(needs, record, to, invokedBy);
  if (onFailed !== undefined && record.state === "blocked" && end?.to === "failed")
    await makeOnFailed(needs, record, onFailed);
  if (end !== null && record.state === "blocked" && (await endAsRead(needs, record, end)) === null)
    return null;
  if (
    capOf(part) !== null &&
    !(await goOnInMap(needs, record, { isOver: end !== null, isLost: cancelsRest }))
  )
    return null;
  if (cancelsRest) await cancelRest(needs, record, waits, part);
  return end === null ? "waited" : end.to;
}

/** Frees the next items of a map with a cap. @returns false if the map has to be read again. */
async function goOnInMap(
  needs: Needs<"changes" | "reads">,
  map: JobRecord,
  { isOver, isLost }: { readonly isOver: boolean; readonly isLost: boolean },
): Promise<boolean> {
  if (isOver || map.state !== "blocked") {
    uncacheMap(needs, map.id);
    return true;
  }
  if (!(await rearm(needs, map))) return false;
  if (!isLost && !map.cancelAsked) await freeNext(needs, map);
  return true;
}

async function hasFailedToExpand(needs: Needs<"reads">, id: string): Promise<boolean> {
  const expander = await needs.reads.add(`${id}.${expanderName}`);
  return expander !== null && isTerminal(expander.state) && expander.state !== "completed";
}

async function cancelRest(
  needs: DeferredWorkNeeds,
  { id }: JobRecord,
  waits: Waits,
  part: Part,
): Promise<void> {
  if (part.kind === "flow") {
    // It fails, so nothing is added to it any more.
    if (await close(needs, id, restReason)) await cancelBelow(needs, id, { reason: restReason });
    return;
  }
  // Its nodes are numbered, so their ids are known without a search, unless a handler has added some.
  const total = waits.members?.total ?? 0;
  const ids = [...Array.from({ length: total }, (_, at) => `${id}.${at}`), `${id}.${expanderName}`];
  const found = await cancelByIds(needs, ids, restReason);
  if (found < total) await cancelBelow(needs, id, { reason: restReason });
}

async function cancelParents(
  needs: DeferredWorkNeeds,
  id: string,
  { parents = [] }: FlowMeta,
): Promise<void> {
  const root = rootOf(id) ?? id;
  const ids = parents.map((edge) => idOfPath(root, targetOf(edge)));
  await cancelByIds(needs, ids, `${id} needs it no longer`);
}

/** @returns how many of them there are. */
async function cancelByIds(
  needs: DeferredWorkNeeds,
  ids: readonly string[],
  reason: string,
): Promise<number> {
  let found = 0;
  for (let left = ids; left.length > 0;) {
    const read = await Promise.all(left.map((id) => needs.reads.add(id)));
    const records = read.filter((record): record is JobRecord => record !== null);
    if (left === ids) found = records.length;
    const moved = await cancelMembers(needs, records, { reason });
    // Closed first: otherwise a node that is added after this read would be missed.
    for (const { id, meta, state } of records)
      if (flowMetaOf({ meta }).part !== undefined && !isTerminal(state))
        await cancelBelow(needs, id, { reason });
    // Jobs that changed between the read and the change are read again.
    left = moved.map(({ id }) => id);
  }
  return found;
}

/** The flow is gone, so its members are deleted. Those that still live are deleted by a later pass. */
async function deleteMembers(needs: Needs<"store" | "changes">, id: string): Promise<string> {
  for await (const page of allMembers(needs, id)) {
    const ended = page.filter(({ state }) => isTerminal(state));
    await Promise.all(ended.map((record) => changeAsRead(needs, record, [deleteChange])));
    // What each part leaves is to have its members deleted, which are deleted here.
    const parts = ended.filter((record) => flowMetaOf(record).part !== undefined);
    const done = parts.map((part): DocPut => ({ kind: deferredKind, id: part.id, body: null, guard: "any" }));
    if (done.length > 0) await needs.store.putDocs(done);
  }
  const { jobs } = await membersPage(needs, id, { cursor: null });
  return jobs.length === 0 ? "deleted" : postponed;
}
