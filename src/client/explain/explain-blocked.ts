/**
 * Explains what a blocked job waits for. A member of a flow waits for the nodes before it; a flow waits for its
 * members.
 */
import type { Needs } from "../../engine/services.ts";
import { flowMetaOf, membersPage } from "../../engine/flows/members.ts";
import { readAttemptLog } from "../../model/job/attempt-log.ts";
import { idOfNode, targetOf } from "../../model/flow/edge.ts";
import { conditionOf, nodesMax } from "../../model/flow/graph.ts";
import type { Condition } from "../../model/flow/graph.ts";
import { idOfPath, isItem, pathOfId, rootOf } from "../../model/flow/flow-meta.ts";
import { liveMembers } from "../../model/flow/decide-flow.ts";
import { capOf } from "../../model/flow/capped-map.ts";
import { readWaits } from "../../model/flow/flow-waits.ts";
import { isTerminal, liveStates } from "../../model/job/job-state.ts";
import type { JobState } from "../../model/job/job-state.ts";
import type { JobRecord } from "../../store/records.ts";
import { isFlow } from "../flows/flow-jobs.ts";

type ExplainBlockedNeeds = Needs<"store" | "reads">;

/** How many parents are read, and how many of them are named. */
const readMax = 500;
const namedMax = 5;

const wanted: Readonly<Record<Condition, string>> = {
  success: "the success of",
  failure: "the failure of",
  always: "the end of",
};

/** @param record a blocked job. */
export function explainBlocked(needs: ExplainBlockedNeeds, record: JobRecord): Promise<string> {
  return isFlow(record) ? explainFlow(needs, record) : explainMember(needs, record);
}

async function explainMember(needs: ExplainBlockedNeeds, record: JobRecord): Promise<string> {
  const { need, slack } = readWaits(record.waits ?? "");
  if (slack < 0)
    return "It can never be freed, because what it waits for has become impossible; it will be skipped.";
  const { parents = [], wants } = flowMetaOf(record);
  const root = rootOf(record.id) ?? record.id;
  const paths = parents.slice(0, readMax).map(targetOf);
  const records = await Promise.all(paths.map((path) => needs.reads.add(idOfPath(root, path))));
  const awaited = records.flatMap((parent, at) => {
    if (parent === null || isTerminal(parent.state)) return [];
    const on = conditionOf(parents[at] as string);
    return [`${wanted[on]} ${nameOf(parent)}`];
  });
  const capText = awaited.length === 0 ? await explainCap(needs, record) : null;
  if (capText !== null) return capText;
  const added =
    wants?.slack === 0 && need > awaited.length && need <= nodesMax ? await readAdded(needs, record) : [];
  if (awaited.length + added.length === 0 || wants === undefined)
    return "It is about to be freed, or a replay of its flow is about to run it again.";
  const more = parents.length > readMax ? parents.length - readMax : 0;
  const [all, wanting] = [parents.length + added.length, wants.need + added.length];
  const came = wanting - need;
  const joins =
    all === 1
      ? ""
      : `; it needs ${wanting === all ? `all ${all}` : `${wanting} of ${all}`}, and ${came} ${came === 1 ? "has" : "have"} come`;
  return `It waits for ${listed([...awaited, ...added], more)}${joins}.`;
}

/** Nodes that handlers added before this one and that have not ended. The record of this node does not list them. */
async function readAdded(needs: Needs<"store">, { id, flow, meta }: JobRecord): Promise<readonly string[]> {
  const within = flow ?? id;
  const { parents = [] } = flowMetaOf({ meta });
  const known = new Set(parents.map(targetOf));
  const { jobs } = await membersPage(needs, within, { states: liveStates, cursor: null });
  return jobs
    .filter((job) => job.flow === within && !known.has(pathOfId(job.id)))
    .filter(({ edges }) => (edges ?? []).some((edge) => idOfNode(within, targetOf(edge)) === id))
    .map((job) => `${wanted.success} ${nameOf(job)}`);
}

/** @returns null for any job but an item of a map with a cap. */
async function explainCap(needs: Needs<"reads">, { id, flow }: JobRecord): Promise<string | null> {
  const map = flow === null || !isItem(id) ? null : await needs.reads.add(flow);
  const cap = map === null ? null : capOf(flowMetaOf(map).part);
  if (map === null || cap === null) return null;
  return `It waits for the cap of its map: ${JSON.stringify(pathOfId(map.id))} lets ${cap} of its items run at once, in the order of the list.`;
}

async function explainFlow(needs: Needs<"store">, record: JobRecord): Promise<string> {
  const waits = readWaits(record.waits ?? "");
  const live = liveMembers(waits);
  const { cancelReason } = readAttemptLog(record.attempts);
  const asked = record.cancelAsked
    ? `Its cancel was asked for${cancelReason === undefined ? "" : ` (${cancelReason})`}. `
    : "";
  if (live === 0) return `${asked}All of its nodes have ended; its own end is about to be decided.`;
  const { jobs } = await membersPage(needs, record.id, { states: liveStates, cursor: null });
  // Blocked members are left out, because they wait for the others.
  const moving = jobs.filter((job) => job.state !== "blocked").toSorted(byState);
  const total = waits.members?.total ?? live;
  const nodes = `${live} of its ${total} ${total === 1 ? "node" : "nodes"}`;
  return `${asked}It waits for ${nodes}${moving.length === 0 ? "" : `; those that wait for no other are ${listed(moving.map(nameOf), 0)}`}.`;
}

const order: readonly JobState[] = ["running", "ready", "scheduled", "suspended"];

function byState(one: JobRecord, other: JobRecord): number {
  return order.indexOf(one.state) - order.indexOf(other.state) || one.seq - other.seq;
}

/** A part that has not ended counts as running. */
function nameOf(record: JobRecord): string {
  const state = isFlow(record) && record.state === "blocked" ? "running" : record.state;
  return `${JSON.stringify(pathOfId(record.id))} (${state})`;
}

/** @param more how many were not read at all. */
function listed(texts: readonly string[], more: number): string {
  const named = texts.slice(0, namedMax);
  const left = texts.length - named.length + more;
  if (left > 0) return `${named.join(", ")} and ${left} more`;
  return named.length < 2 ? named.join("") : `${named.slice(0, -1).join(", ")} and ${named.at(-1)}`;
}
