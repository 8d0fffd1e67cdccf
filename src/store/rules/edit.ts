/** An edit of the texts of a job, which a store never reads, and of its tags, by which it is found. */
import type { Edit } from "../../model/job/change.ts";
import type { JobRow } from "../job-fields.ts";

export function edit({ input, policy, meta, tags }: Edit = {}): Partial<JobRow> {
  return {
    ...(input === undefined ? {} : { input }),
    ...(policy === undefined ? {} : { policy }),
    ...(meta === undefined ? {} : { meta }),
    ...(tags === undefined ? {} : { tags }),
  };
}
