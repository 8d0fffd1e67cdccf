/** Fields of a new job that a later version will honour: refused before anything is written, never ignored. */
import { notYetSupported } from "../model/error.ts";
import type { NewJob } from "./records.ts";

const laterFields = ["caps", "group", "gates", "need", "slack"] as const satisfies readonly (keyof NewJob)[];

export function checkLaterFields(jobs: readonly NewJob[]): void {
  for (const job of jobs) {
    for (const field of laterFields)
      if (job[field] !== undefined) throw notYetSupported(`The field ${field} of a job`);
  }
}
