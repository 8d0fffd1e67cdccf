/**
 * What a change of a job means for its lane (model/routing/lane.ts): whether it is among the lane's ready jobs, and
 * which permits of its keys it holds. Both follow from the state of the job. So a change is given as the job before and
 * after it, and nothing has to be stored to give a permit back.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { readKeyUse } from "../../../model/routing/lane.ts";
import type { KeyUse } from "../../../model/routing/lane.ts";
import type { JobRow } from "../../job-fields.ts";

/** What a lane needs to know of its job. */
export type Laned = Pick<
  JobRow,
  "seq" | "route" | "rank" | "state" | "timerAt" | "keepsLane" | "laneStep" | "laneGates"
> & { readonly laneKey: string };

/** A job with a lane before and after a change; null for absent. */
export interface LaneMove {
  readonly from: Laned | null;
  readonly to: Laned | null;
}

/** A row whose spec was not read is that of a job without a lane. */
export function asLaned(row: JobRow): Laned | null {
  return typeof row.laneKey === "string" ? (row as Laned) : null;
}

export const isInLine = ({ state }: Pick<JobRow, "state">): boolean => state === stateCodes.ready;

export function keyUsesOf({ laneGates }: Pick<JobRow, "laneGates">): readonly KeyUse[] {
  return laneGates === null ? [] : laneGates.map(readKeyUse);
}

/** The permits of its keys that a job holds: all while it runs, that of its group while it keeps its lane. */
export function heldOf(job: Pick<JobRow, "state" | "keepsLane" | "laneGates">): readonly KeyUse[] {
  if (job.state === stateCodes.running) return keyUsesOf(job);
  return job.keepsLane === 1 ? keyUsesOf(job).filter(({ cap }) => cap !== null) : [];
}

/** How much more (or less) of each gate of a key is held after these changes. */
export function permitChanges(moves: readonly LaneMove[]): Map<string, number> {
  const changes = new Map<string, number>();
  const add = (job: Laned | null, sign: 1 | -1): void => {
    if (job === null) return;
    for (const { key, weight } of heldOf(job)) changes.set(key, (changes.get(key) ?? 0) + sign * weight);
  };
  for (const { from, to } of moves) {
    add(from, -1);
    add(to, 1);
  }
  return changes;
}
