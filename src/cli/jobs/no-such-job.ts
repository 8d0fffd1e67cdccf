/** The refusal of an id that no job has. */
import { MillraceError } from "../../model/error.ts";

export function noSuchJob(id: string): MillraceError {
  return new MillraceError("job-not-found", `There is no job ${JSON.stringify(id)}.`);
}
