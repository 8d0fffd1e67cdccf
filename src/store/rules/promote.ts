/**
 * Rule R5: a scheduled job that is due becomes ready. Its rank was fixed when it was scheduled. The routes that have
 * due jobs share a call, so that a flood on one route delays no other.
 */
import { stateCodes } from "../../model/job/job-state.ts";
import type { JobRow } from "../job-fields.ts";
import { advance } from "./advance.ts";
import type { Outcome } from "./advance.ts";

export function promote(row: JobRow): Outcome {
  const ready = advance(row, { state: stateCodes.ready, keepsLane: 0 });
  return { row: ready, event: "promoted", isKept: true, key: "stays" };
}

/** How many jobs each of N routes may have promoted. */
export function shareOf(max: number, routes: number): number {
  return Math.max(1, Math.floor(max / routes));
}

export interface Shares<Row> {
  /** The jobs to promote. */
  readonly jobs: readonly Row[];
  /** Whether due jobs are left. */
  readonly more: boolean;
}

/** Each route's share of these due jobs, the longest due first. */
export function shareOut<Row extends Pick<JobRow, "route">>(due: readonly Row[], max: number): Shares<Row> {
  const counts = new Map<number, number>();
  const share = shareOf(max, new Set(due.map(({ route }) => route)).size);
  const jobs = due.filter(({ route }) => {
    const taken = (counts.get(route) ?? 0) + 1;
    counts.set(route, taken);
    return taken <= share;
  });
  return { jobs, more: jobs.length < due.length };
}
