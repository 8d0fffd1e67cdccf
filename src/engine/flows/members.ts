/**
 * The members of a flow: found by the tag that all of them have, told apart by their ids. What is done to many of them
 * is done page by page, each under the guard of what was read; whatever moved on meanwhile is left to the next page or
 * look.
 */
import { hasMark } from "../../model/durable/durable-marks.ts";
import { edgesOfStep } from "../../model/flow/edge.ts";
import { flowQueue, memberTag, rootOf } from "../../model/flow/flow-meta.ts";
import type { FlowMeta } from "../../model/flow/flow-meta.ts";
import { noteCancelReason } from "../../model/job/attempt-log.ts";
import { readFlowMeta } from "../../model/job/job-meta.ts";
import { readWaits } from "../../model/flow/flow-waits.ts";
import { isTerminal, liveStates, terminalStates } from "../../model/job/job-state.ts";
import type { JobState } from "../../model/job/job-state.ts";
import { cancelChanges } from "../../model/job/operate.ts";
import type { OperatorChange } from "../../model/job/operate.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import type { ChangeAnswer } from "../../store/operations.ts";
import type { JobRecord } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import { operatorCases } from "../durable/end-case.ts";
import { cancelsChanged } from "../fleet/change-numbers.ts";

type MembersNeeds = Needs<"store" | "log" | "changes" | "policies" | "strideMs">;

const pageMax = 500;
const scanMax = 10_000;

export function flowMetaOf({ meta }: Pick<JobRecord, "meta">): FlowMeta {
  return readFlowMeta(meta);
}

/** Whether a job stands in for a member whose record could not be read (lost-members.ts). */
export function isStandIn(record: Pick<JobRecord, "queue" | "flow" | "meta">): boolean {
  return record.queue === flowQueue && record.flow !== null && flowMetaOf(record).part === undefined;
}

export interface MemberPage {
  readonly jobs: readonly JobRecord[];
  readonly cursor: string | null;
}

/** Members of a flow or a part, at any depth below it, newest first. */
export async function membersPage(
  needs: Needs<"store">,
  id: string,
  { states, cursor }: { readonly states?: readonly JobState[]; readonly cursor: string | null },
): Promise<MemberPage> {
  const filter = { tag: memberTag(rootOf(id) ?? id), ...(states === undefined ? {} : { states }) };
  const page = await needs.store.findJobs({ filter, max: pageMax, scanMax, cursor });
  return { jobs: page.jobs.filter((job) => job.id.startsWith(`${id}.`)), cursor: page.cursor };
}

export async function* allMembers(
  needs: Needs<"store">,
  id: string,
  states?: readonly JobState[],
): AsyncGenerator<readonly JobRecord[], void, undefined> {
  let cursor: string | null = null;
  do {
    const only = states === undefined ? {} : { states };
    const page: MemberPage = await membersPage(needs, id, { ...only, cursor });
    yield page.jobs;
    cursor = page.cursor;
  } while (cursor !== null);
}

/** Writes what was decided about a record as it was read. */
export function changeAsRead(
  needs: Needs<"changes">,
  { id, rev }: Pick<JobRecord, "id" | "rev">,
  changes: readonly OperatorChange[],
): Promise<ChangeAnswer> {
  return needs.changes.add({ id, cases: operatorCases(changes, rev) });
}

/**
 * A finished member goes along the edges that are left: bounded steps, each with its place kept by the job itself.
 * @returns how many of the steps had more behind them, and so left deferred work for the member anew.
 */
export async function goAlong(needs: Needs<"changes">, { id, edges, waits }: JobRecord): Promise<number> {
  const { length } = edges ?? [];
  let defers = 0;
  for (let at = readWaits(waits ?? "").passed; at < length;) {
    const passesOn = edgesOfStep(at, storeLimits);
    const next = { to: "same", event: "passed-on", passesOn } as const;
    const answer = await needs.changes.add({ id, cases: [{ guard: { states: terminalStates }, next }] });
    if (answer.kind !== "ok") break;
    at += passesOn;
    if (at < length) defers += 1;
  }
  return defers;
}

export interface CancelHow {
  readonly reason: string;
  /** What runs is left to its end. */
  readonly pendingOnly?: boolean;
}

/** Whether a cancel has something left to do about this member. */
export function isToCancel(
  { state, cancelAsked, durable }: JobRecord,
  { pendingOnly = false }: CancelHow,
): boolean {
  // A run that undoes its steps is to end anyway.
  if (isTerminal(state) || cancelAsked || hasMark(durable, "isEnding")) return false;
  return !(pendingOnly && state === "running");
}

/**
 * Cancels these members: those that wait end at once, the workers of running ones get the cancel, and parts take no
 * more nodes.
 * @returns those that had moved on.
 */
export async function cancelMembers(
  needs: MembersNeeds,
  records: readonly JobRecord[],
  how: CancelHow,
): Promise<readonly JobRecord[]> {
  const workers = new Set<string>();
  const moved: JobRecord[] = [];
  await Promise.all(
    records
      .filter((record) => isToCancel(record, how))
      .map(async (record) => {
        const answer = await changeAsRead(needs, record, cancelsOf(needs, record, how));
        const isAsked = answer.kind === "ok" && answer.state === "running" && record.owner !== null;
        if (isAsked) workers.add(record.owner);
        if (answer.kind === "changed") moved.push(record);
      }),
  );
  await cancelsChanged(needs, workers);
  return moved;
}

function cancelsOf(
  needs: Needs<"policies" | "strideMs">,
  record: JobRecord,
  { reason, pendingOnly = false }: CancelHow,
): readonly OperatorChange[] {
  if (flowMetaOf(record).part !== undefined) return [closeChange(record, reason)];
  const policy = needs.policies.read(record.policy, record.queue);
  const changes = cancelChanges({ ...record, policy }, reason, needs.strideMs);
  return pendingOnly ? changes.filter(({ states }) => !states.includes("running")) : changes;
}

/** A flow or a part takes no more nodes, and ends as cancelled once those that it has are over. */
export function closeChange({ attempts }: Pick<JobRecord, "attempts">, reason: string): OperatorChange {
  return {
    states: ["blocked"],
    next: { to: "same", event: "cancel-asked", cancelAsked: true },
    attempts: noteCancelReason(attempts, reason),
  };
}

/**
 * Cancels whatever of a flow or a part has not ended, until a look at all of it finds nothing left to do: what moved on
 * between the look and the change comes again, and so does what was added while it took nodes.
 */
export async function cancelBelow(needs: MembersNeeds, id: string, how: CancelHow): Promise<void> {
  for (let isDone = false; !isDone;) {
    isDone = true;
    let cursor: string | null = null;
    do {
      const page: MemberPage = await membersPage(needs, id, { states: liveStates, cursor });
      const left = page.jobs.filter((record) => isToCancel(record, how));
      isDone &&= left.length === 0;
      await cancelMembers(needs, left, how);
      cursor = page.cursor;
    } while (cursor !== null);
  }
}

/** A flow or a part takes no more nodes. @returns whether it was still open or closing. */
export async function close(needs: Needs<"changes" | "reads">, id: string, reason: string): Promise<boolean> {
  for (;;) {
    const record = await needs.reads.add(id);
    if (record === null || isTerminal(record.state)) return false;
    if (record.cancelAsked) return true;
    const answer = await changeAsRead(needs, record, [closeChange(record, reason)]);
    if (answer.kind === "ok") return true;
  }
}
