/**
 * Replaying nodes of a flow: the plan (model/flow/plan-replay.ts) is kept in the request's document and gone through
 * from the beginning by whoever finds it. Each step is guarded by the rev that the plan noted, so a step that was taken
 * is not taken again, and a node that was changed by somebody else is left as it is.
 */
import { noteNewRound } from "../../model/job/attempt-log.ts";
import type { Block } from "../../model/job/change.ts";
import { isMillraceError, MillraceError } from "../../model/error.ts";
import { targetOf, withTarget } from "../../model/flow/edge.ts";
import { idOfPath, isItem, pathOfId } from "../../model/flow/flow-meta.ts";
import { hasCancelledRest, liveMembers } from "../../model/flow/decide-flow.ts";
import { planReplay } from "../../model/flow/plan-replay.ts";
import type { Member, ReplayAsked, ReplayPlan } from "../../model/flow/plan-replay.ts";
import { capOf, waitBehindCap } from "../../model/flow/capped-map.ts";
import { readWaits } from "../../model/flow/flow-waits.ts";
import { isTerminal, terminalStates } from "../../model/job/job-state.ts";
import { replayChange } from "../../model/job/operate.ts";
import type { OperatorChange, ReplayChange } from "../../model/job/operate.ts";
import type { Doc, JobRecord } from "../../store/records.ts";
import { deferredPut } from "../../store/rules/flow/arrive.ts";
import { hasPassedOn } from "../../store/rules/flow/member.ts";
import type { Needs } from "../services.ts";
import { allMembers, changeAsRead, flowMetaOf, goAlong, isStandIn } from "./members.ts";

type ReplayFlowNeeds = Needs<"store" | "changes" | "reads">;

/** @returns the plan, which is empty where nothing has to come back. */
export async function makeReplayPlan(
  needs: ReplayFlowNeeds,
  flow: JobRecord,
  asked: ReplayAsked,
): Promise<ReplayPlan> {
  if (flow.cancelAsked && !isTerminal(flow.state))
    throw new MillraceError(
      "flow-closed",
      `The flow ${JSON.stringify(flow.id)} is being cancelled; replay it once it has ended.`,
    );
  const members = new Map<string, Member>([["", memberOf(flow)]]);
  for await (const page of allMembers(needs, flow.id))
    for (const job of page) members.set(pathOfId(job.id), memberOf(await passedOn(needs, job)));
  for (const path of asked.nodes ?? []) checkNode(members.get(path), path, flow.id);
  return planReplay(members, asked);
}

/** Before it has gone along all its edges a member cannot come back, and each step of that makes another rev. */
async function passedOn(needs: Needs<"changes" | "reads">, job: JobRecord): Promise<JobRecord> {
  if (!isTerminal(job.state) || hasPassedOn(job)) return job;
  await goAlong(needs, job);
  return (await needs.reads.add(job.id)) ?? job;
}

function memberOf(job: JobRecord): Member {
  const { id, state, rev, flow, edges } = job;
  const { part, parents = [], cancelsRest = false } = flowMetaOf(job);
  const waits = readWaits(job.waits ?? "");
  const isUnfreed = parents.length > 0 && waits.need > 0;
  return {
    path: pathOfId(id),
    state,
    rev,
    // What a stand-in stood for cannot run again.
    isPart: part !== undefined || isStandIn(job),
    isCapped: capOf(part) !== null,
    hasCancelledRest: part !== undefined && hasCancelledRest(part, waits),
    hasCancelledParents: cancelsRest && !isUnfreed,
    isUnfreed,
    parents,
    within: flow === null ? null : pathOfId(flow),
    edges: edges ?? [],
  };
}

function checkNode(node: Member | undefined, path: string, flow: string): void {
  if (node === undefined)
    throw new MillraceError(
      "job-not-found",
      `The flow ${JSON.stringify(flow)} has no node ${JSON.stringify(path)}.`,
    );
  if (node.isPart)
    throw new MillraceError(
      "invalid-option",
      `${JSON.stringify(path)} has nodes of its own, of which one can be named, or its record was lost.`,
    );
  if (!isTerminal(node.state))
    throw new MillraceError(
      "job-changed",
      `The node ${JSON.stringify(path)} is ${node.state}; only one that has ended runs again.`,
    );
}

/**
 * The request of a replay with its plan. The plan is made after the request is written, so that no other request is
 * about to change what it is made of. It is written before anything is done, so that every process that carries the
 * request out follows the same plan. Null if another process has carried it out.
 */
export async function plannedReplay(needs: ReplayFlowNeeds, doc: Doc): Promise<Doc | null> {
  const asked = JSON.parse(doc.body) as ReplayAsked | ReplayPlan;
  if ("runs" in asked) return doc;
  const { kind, id, version } = doc;
  const body = JSON.stringify(await planOf(needs, id, asked));
  const put = { kind, id, body, due: { inMs: 0 }, guard: { version } };
  const [answer] = await needs.store.putDocs([put]);
  if (answer?.kind === "ok") return { ...doc, body, version: answer.version };
  const { docs } = await needs.store.readDocs({ kind, ids: [id] });
  return docs[0] === undefined ? null : plannedReplay(needs, docs[0]);
}

/** Of a flow that is gone, or of a node that runs meanwhile, nothing comes back. */
async function planOf(needs: ReplayFlowNeeds, id: string, asked: ReplayAsked): Promise<ReplayPlan> {
  const flow = await needs.reads.add(id);
  try {
    if (flow !== null) return await makeReplayPlan(needs, flow, asked);
  } catch (error) {
    if (!isMillraceError(error) || error.retryable || error.outcome === "unknown") throw error;
  }
  return { blocks: [], runs: [], steps: [], unfreed: [], capped: [], behindCap: [], waits: 0, added: {} };
}

/** Goes through a plan. */
export async function replayFlow(
  needs: Needs<"store" | "strideMs" | "changes" | "reads" | "policies">,
  { id: root, body }: Doc,
): Promise<string> {
  const { blocks, runs, steps, unfreed, capped, behindCap, added } = JSON.parse(body) as ReplayPlan;
  await Promise.all(blocks.map((step) => take(needs, root, step, blockForReplay)));
  await Promise.all(runs.map((run) => take(needs, root, run, (record) => hold(needs, record, capped))));
  // One behind the other: each counts those before it as they stand.
  for (const step of steps)
    await take(needs, root, step, (record) =>
      flowMetaOf(record).part === undefined
        ? waitAgain(root, record, added[pathOfId(record.id)] ?? [])
        : reopen(record),
    );
  await Promise.all(behindCap.map((path) => take(needs, root, [path, null], stayBehindCap)));
  const isUnfreed = new Set(unfreed);
  const go = (record: JobRecord): OperatorChange => {
    const path = pathOfId(record.id);
    return isUnfreed.has(path) ? waitAgain(root, record, added[path] ?? []) : letGo(needs, record, capped);
  };
  // The hold has made one rev more.
  await Promise.all(runs.map(([path, rev]) => take(needs, root, [path, rev + 1], go)));
  // Which items may be free, or whether all of it is over by now, is decided by a look at the map as by any other.
  if (capped.length > 0) await needs.store.putDocs(capped.map((path) => deferredPut(idOfPath(root, path))));
  return "replayed";
}

/** What moved on between the look and the change is looked at again, so often. */
const triesMax = 10;

async function take(
  needs: Needs<"changes" | "reads">,
  root: string,
  [path, rev]: readonly [path: string, rev: number | null],
  make: (record: JobRecord) => OperatorChange | null,
): Promise<void> {
  for (let tries = 0; tries < triesMax; tries++) {
    const record = await needs.reads.add(idOfPath(root, path));
    if (record === null || !isAsPlanned(record, rev)) return;
    const made = make(record);
    if (made === null) return;
    const answer = await changeAsRead(needs, record, [made]);
    if (answer.kind !== "changed") return;
  }
}

/** A flow or a part may have ended behind the plan: nodes that have come back since count as living in it. */
function isAsPlanned(record: JobRecord, rev: number | null): boolean {
  if (rev === null || record.rev === rev) return true;
  const { part } = flowMetaOf(record);
  // Each look at a map with a cap makes another rev of it.
  if (!isTerminal(record.state)) return capOf(part) !== null;
  if (part === undefined) return false;
  // A race ends while others of it live: unless its end is all that came since, it has come back by this plan before.
  if (part.kind === "race") return record.rev === rev + 1;
  return liveMembers(readWaits(record.waits ?? "")) > 0;
}

const again = { to: "blocked", event: "replayed" } as const;

/**
 * A flow or a part goes on counting from where it stands. One that has not ended gets another rev, so that whoever is
 * about to end it, by the counts from before, looks again.
 */
function reopen(record: JobRecord): OperatorChange {
  const next: Block = { ...again, parents: [], waits: null };
  const round = capOf(flowMetaOf(record).part) === null ? {} : { attempts: noteNewRound(record.attempts) };
  return { states: [...terminalStates, "blocked"], next, ...round };
}

/** One that has been freed meanwhile goes on. */
function stayBehindCap({ state }: JobRecord): OperatorChange | null {
  return state === "blocked" ? { states: ["blocked"], next: waitBehindCap("passed-on") } : null;
}

/** Nothing ever meets this need, or misses it: it is let go at the end. */
const never = { need: 1_000_000_000, slack: 1_000_000_000 };

function blockForReplay(): OperatorChange {
  return { states: ["blocked"], next: { ...again, parents: [], waits: never } };
}

/** Far longer than anybody takes to go through a plan. */
const heldMs = 365 * 24 * 60 * 60 * 1000;

/**
 * A node is held back until the plan is through. One that holds its group is scheduled, which keeps it first there, and
 * not blocked: that gives the group up, as a node must that is to wait for others, which may be of the same group.
 */
function hold(
  needs: Needs<"strideMs" | "policies">,
  record: JobRecord,
  capped: readonly string[],
): OperatorChange {
  if (record.keepsLane === 1 && !isBehindCap(record, capped)) return replayAfter(needs, record, heldMs);
  const next: Block = { ...again, parents: [], waits: never, attempt: 0 };
  return { states: terminalStates, next, attempts: noteNewRound(record.attempts) };
}

function waitAgain(root: string, record: JobRecord, added: readonly string[]): OperatorChange {
  const { parents = [], wants = { need: 0, slack: 0 } } = flowMetaOf(record);
  const next: Block = {
    ...again,
    parents: [...parents, ...added].map((edge) => withTarget(edge, idOfPath(root, targetOf(edge)))),
    waits: { ...wants, need: wants.need + added.length },
    attempt: 0,
  };
  const log = isTerminal(record.state) ? { attempts: noteNewRound(record.attempts) } : {};
  return { states: [...terminalStates, "blocked"], next, ...log };
}

function letGo(
  needs: Needs<"strideMs" | "policies">,
  record: JobRecord,
  capped: readonly string[],
): OperatorChange {
  if (isBehindCap(record, capped)) return { states: ["blocked"], next: waitBehindCap("replayed") };
  const { next } = replayAfter(needs, record, 0);
  return record.state === "scheduled"
    ? { states: ["scheduled"], next: { ...next, keepsLane: true } }
    : { states: ["blocked"], next };
}

function replayAfter(needs: Needs<"strideMs" | "policies">, record: JobRecord, inMs: number): ReplayChange {
  const policy = needs.policies.read(record.policy, record.queue);
  const options = { due: { inMs }, resetsAttempts: true, strideMs: needs.strideMs };
  return replayChange({ ...record, policy }, options);
}

/** Whether this is an item of a map that lets up to N run at once. */
function isBehindCap({ id }: JobRecord, capped: readonly string[]): boolean {
  const path = pathOfId(id);
  return isItem(path) && capped.includes(path.slice(0, path.lastIndexOf(".")));
}
