/** Which jobs match a list, for a store that checks them one by one. Its index of tags handles tags. */
import { stateCodes } from "../../model/job/job-state.ts";
import { requiresSame } from "../../model/routing/route.ts";
import type { Route } from "../../model/routing/route.ts";
import type { JobRow } from "../job-fields.ts";
import type { JobFilter } from "../operations.ts";

export type Filtered = Pick<JobRow, "route" | "state" | "reason" | "createdAt" | "keepsLane">;

/** `readRoutes` is called only if the filter names a queue, a name or capabilities. */
export function openFilter(
  filter: JobFilter,
  readRoutes: () => readonly Route[],
): (row: Filtered) => boolean {
  const { states, queue, name, requires, reason, createdAfter, createdBefore, keepsLane } = filter;
  const codes = states === undefined ? null : new Set<number>(states.map((state) => stateCodes[state]));
  let routes: Set<number> | null = null;
  if (queue !== undefined || name !== undefined || requires !== undefined) {
    const meant = readRoutes().filter(
      (route) =>
        (queue ?? route.queue) === route.queue &&
        (name ?? route.name) === route.name &&
        requiresSame(requires ?? route.requires, route.requires),
    );
    routes = new Set(meant.map(({ number }) => number));
  }
  return (row) =>
    (codes === null || codes.has(row.state)) &&
    (routes === null || routes.has(row.route)) &&
    (reason === undefined || row.reason === reason) &&
    (keepsLane === undefined || row.keepsLane === 1) &&
    (createdAfter === undefined || row.createdAt > createdAfter) &&
    (createdBefore === undefined || row.createdAt < createdBefore);
}
