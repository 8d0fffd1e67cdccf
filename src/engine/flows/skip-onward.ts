/**
 * Skipping a node that can never be freed, and with it the nodes that can never be freed for that reason. Step by step
 * each end would leave deferred work for the next node: a chain of 10,000 nodes took 40,000 calls, one after the
 * other. So the nodes after it are looked up, and all that are lost with it are skipped in one batch, the last ones
 * first: the end of each then arrives at nodes that have ended, and leaves no more work.
 *
 * A node is lost if more of its parents are lost than it can miss (`wants.slack`). Ends that have arrived already are
 * not counted: they may be those of the same parents. What this look leaves out is skipped by the deferred work that
 * the ends leave. Only a replay brings a lost node back, so nothing is looked up ahead of one.
 */
import { idOfNode, hasBit, readEdge } from "../../model/flow/edge.ts";
import { rootOf } from "../../model/flow/flow-meta.ts";
import { afterImpossible } from "../../model/flow/decide-flow.ts";
import { stateCodes } from "../../model/job/job-state.ts";
import type { JobRecord } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import { allMembers, changeAsRead, flowMetaOf } from "./members.ts";
import { replayKind } from "../../model/flow/requested-change.ts";

type SkipNeeds = Needs<"store" | "changes" | "reads" | "policies">;

/** The maximum of steps that are looked up by their ids. For more, the whole flow is read once. */
const stepsByIdMax = 8;
const lostMax = 10_000;

/** What was read of flows for one batch of deferred work. */
export class BlockedMembers {
  readonly #needs: SkipNeeds;
  readonly #byFlow = new Map<string, Promise<ReadonlyMap<string, JobRecord>>>();

  constructor(needs: SkipNeeds) {
    this.#needs = needs;
  }

  async byIds(ids: readonly string[]): Promise<readonly JobRecord[]> {
    const records = await Promise.all(ids.map((id) => this.#needs.reads.add(id)));
    return records.filter((record): record is JobRecord => record !== null);
  }

  ofFlow(root: string): Promise<ReadonlyMap<string, JobRecord>> {
    const known = this.#byFlow.get(root) ?? this.#read(root);
    this.#byFlow.set(root, known);
    return known;
  }

  async #read(root: string): Promise<ReadonlyMap<string, JobRecord>> {
    const members = new Map<string, JobRecord>();
    for await (const page of allMembers(this.#needs, root, ["blocked"]))
      for (const member of page) members.set(member.id, member);
    return members;
  }
}

/** @param lost blocked, and can never be freed. @returns null if it has changed meanwhile. */
export async function skipOnward(
  needs: SkipNeeds,
  lost: JobRecord,
  blocked: BlockedMembers,
): Promise<"skipped" | null> {
  const all = await lostWith(needs, lost, blocked);
  const answers = await Promise.all(
    all.toReversed().map((record) => {
      const next = afterImpossible(needs.policies.read(record.policy, record.queue));
      return changeAsRead(needs, record, [{ states: ["blocked"], next }]);
    }),
  );
  return answers.at(-1)?.kind === "changed" ? null : "skipped";
}

/** The node and those that are lost with it, each after one of its parents. */
async function lostWith(
  needs: SkipNeeds,
  first: JobRecord,
  blocked: BlockedMembers,
): Promise<readonly JobRecord[]> {
  const root = rootOf(first.id) ?? first.id;
  const all = [first];
  const misses = new Map<string, number>();
  const found = new Set([first.id]);
  for (let level = [first], steps = 0; level.length > 0 && all.length < lostMax; steps++) {
    const targets = level.flatMap(missedBy);
    if (targets.length === 0) break;
    if (steps === 0 && (await isReplayed(needs, root))) break;
    for (const id of targets) misses.set(id, (misses.get(id) ?? 0) + 1);
    const ids = [...new Set(targets)].filter((id) => !found.has(id));
    const records = steps < stepsByIdMax ? await blocked.byIds(ids) : pick(await blocked.ofFlow(root), ids);
    level = records.filter((record) => isLost(record, misses.get(record.id) ?? 0));
    for (const record of level) found.add(record.id);
    all.push(...level);
  }
  return all;
}

/** The members that the skip of this one misses. */
function missedBy({ id, flow, edges }: JobRecord): readonly string[] {
  return (edges ?? []).flatMap((text) => {
    const { misses, target } = readEdge(text);
    return target === "" || !hasBit(misses, stateCodes.skipped) ? [] : [idOfNode(flow ?? id, target)];
  });
}

function isLost(record: JobRecord, misses: number): boolean {
  const { part, wants } = flowMetaOf(record);
  return record.state === "blocked" && part === undefined && wants !== undefined && misses > wants.slack;
}

async function isReplayed(needs: SkipNeeds, root: string): Promise<boolean> {
  return (await needs.store.readDocs({ kind: replayKind, ids: [root] })).docs.length > 0;
}

function pick(members: ReadonlyMap<string, JobRecord>, ids: readonly string[]): readonly JobRecord[] {
  return ids.flatMap((id) => members.get(id) ?? []);
}
