/**
 * Rule R4: the end of a member of a flow goes along its edges and arrives at other members. It frees them, or shows
 * that they can never be freed. Every function here is over one row; a store finds the rows by id.
 *
 *   finish(member) ──► passOn ──► for each edge: arrive(target) ──► freed: free(target) (and deferred if it says so)
 *                        │                                      └─► slack below 0: deferred
 *                        └─► more edges than one step takes: deferred for the member itself
 *   replay(member) ──► depart(flow)
 */
import { hasBit, idOfNode, readEdge } from "../../../model/flow/edge.ts";
import type { Edge } from "../../../model/flow/edge.ts";
import { readFreed } from "../../../model/flow/freed.ts";
import { countEnd, readWaits, writeWaits } from "../../../model/flow/flow-waits.ts";
import type { Waits } from "../../../model/flow/flow-waits.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import type { JobRow } from "../../job-fields.ts";
import type { DocPut, Growth } from "../../records.ts";
import { advance } from "../advance.ts";
import type { Outcome } from "../advance.ts";
import { placeOf } from "../place.ts";

/** The kind of the documents of deferred work, which a duty finishes: one per job. */
export const deferredKind = "deferred";

export function deferredPut(id: string): DocPut {
  return { kind: deferredKind, id, body: "", due: { inMs: 0 }, guard: "any" };
}

/** Edges in order, each with the id of its target, and how far the end of the member has gone after them. */
export interface Passing {
  readonly edges: readonly (Edge & { readonly id: string })[];
  readonly waits: string;
  /** More edges are left. */
  readonly defers: boolean;
}

/** The next `max` edges of a finished member. */
export function passOn(
  { flow, edges, waits }: Pick<JobRow, "flow" | "edges" | "waits">,
  max: number,
): Passing {
  const own = readWaits(waits as string);
  const all = edges ?? [];
  const passed = Math.min(all.length, own.passed + max);
  return {
    edges: all.slice(own.passed, passed).map((text) => {
      const { meets, misses, target } = readEdge(text);
      return { meets, misses, target, id: idOfNode(flow as string, target) };
    }),
    waits: writeWaits({ ...own, passed }),
    defers: passed < all.length,
  };
}

/**
 * What an arrival needs to know of the target of an edge. Many ends may arrive at one target: its waits are read once.
 */
export interface ArrivalTarget extends Pick<JobRow, "state"> {
  readonly waits: Waits | null;
}

/** The target after an arrival. */
export interface Arrival {
  readonly waits: Waits;
  /** It has no need left: if it has `freed`, it is placed (`free`). */
  readonly isFreed: boolean;
  /** Deferred work is left for the target. */
  readonly defers: boolean;
}

/**
 * An end in this state arrives at the target of an edge. Null if nothing changes: the target is not blocked, and is not
 * the flow that counts its members.
 */
export function arrive({ state, waits: before }: ArrivalTarget, edge: Edge, ended: number): Arrival | null {
  const isBlocked = state === stateCodes.blocked;
  if (before === null || !(isBlocked || edge.target === "")) return null;
  const after = counted(before, edge, ended, 1);
  const isMet = isBlocked && before.need > 0 && after.need <= 0;
  const isLost = isBlocked && before.slack >= 0 && after.slack < 0;
  // A flow that is lost already is also decided by its last member.
  return {
    waits: after,
    isFreed: isMet && after.slack >= 0,
    defers: isLost || (isMet && after.defers === 1),
  };
}

/** A blocked job without a need is placed as its submit says. A flow stays: a duty decides about it. */
export function free(row: JobRow, now: number): Outcome | null {
  if (row.freed === null) return null;
  const placed = advance(row, placeOf(readFreed(row.freed), now));
  return { row: placed, event: "freed", isKept: true, key: "stays" };
}

/** A member that had ended in this state comes back: its flow counts it as live again. */
export function depart(flow: JobRow, edge: Edge, ended: number): JobRow {
  if (flow.waits === null) return flow;
  return { ...flow, waits: writeWaits(counted(readWaits(flow.waits), edge, ended, -1)) };
}

/** The waits with one more (or less) end along this edge. Only the edge to a flow counts how its members ended. */
export function counted(waits: Waits, edge: Edge, ended: number, change: 1 | -1): Waits {
  return {
    ...waits,
    need: waits.need - (hasBit(edge.meets, ended) ? change : 0),
    slack: waits.slack - (hasBit(edge.misses, ended) ? change : 0),
    members: edge.target === "" ? countEnd(waits.members, ended, change) : waits.members,
  };
}

/** A flow, or a node of it, waits for more; null if it cannot any more. */
export function grow(row: JobRow, by: NonNullable<Growth["grows"]>[number]): JobRow | null {
  if (row.state !== stateCodes.blocked || row.cancelAsked === 1 || row.waits === null) return null;
  const waits = readWaits(row.waits);
  const { members } = waits;
  const grown = {
    ...waits,
    need: waits.need + by.need,
    slack: waits.slack + by.slack,
    members: members === null ? null : { ...members, total: members.total + by.members },
  };
  return { ...row, waits: writeWaits(grown) };
}

/** A member with one more edge. */
export function link(row: JobRow, edge: string): JobRow {
  return { ...row, edges: [...(row.edges ?? []), edge] };
}
