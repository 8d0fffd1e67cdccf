/** A job as a read returns it. */
import { stateOfCode } from "../../model/job/job-state.ts";
import { shownRoute } from "../../model/routing/route.ts";
import type { RouteContent } from "../../model/routing/route.ts";
import { fieldNames } from "../job-fields.ts";
import type { JobRow } from "../job-fields.ts";
import type { JobRecord } from "../records.ts";

const shownNames = fieldNames(({ isOwn }) => isOwn !== true);

export function recordOf(row: JobRow, route: RouteContent): JobRecord {
  const shown: Partial<JobRow> = {};
  for (const each of shownNames) shown[each] = row[each] as never;
  const named = { ...shownRoute(route), state: stateOfCode(row.state), cancelAsked: row.cancelAsked === 1 };
  return { ...(shown as JobRow), ...named };
}
