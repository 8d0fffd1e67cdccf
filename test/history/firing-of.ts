/** What the history tells of schedules: which tick a job stands for. */
import { readMeta } from "../../src/model/job/job-meta.ts";
import type { MadeBy } from "../../src/model/job/job-meta.ts";
import type { NewJob } from "../../src/store/records.ts";

/** So begin the names of schedules that are defined once, left alone, and make up for every missed tick. */
export const steadyPrefix = "steady-";

/** Null for a job that no schedule made. */
export function firingOf({ meta }: Pick<NewJob, "meta">): MadeBy | null {
  return readMeta(meta).schedule ?? null;
}
