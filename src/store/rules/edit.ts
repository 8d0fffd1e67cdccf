/** An edit of the texts of a job, which a store never reads. */
import type { Edit } from "../../model/job/change.ts";
import type { JobRow } from "../job-fields.ts";

export function edit({ input, policy, meta }: Edit = {}): Partial<JobRow> {
  return {
    ...(input === undefined ? {} : { input }),
    ...(policy === undefined ? {} : { policy }),
    ...(meta === undefined ? {} : { meta }),
  };
}
