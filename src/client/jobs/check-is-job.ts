/**
 * The guard of typed handles and views: a result has the type of a definition only if its job has the definition's
 * name.
 */
import { MillraceError } from "../../model/error.ts";
import type { JobRecord } from "../../store/records.ts";

/** @param wanted the name of the definition; null if any job will do. */
export function checkIsJob({ id, name }: JobRecord, wanted: string | null): void {
  if (wanted === null || name === wanted) return;
  throw new MillraceError(
    "other-job",
    `The job ${JSON.stringify(id)} is a ${JSON.stringify(name)}, not a ${JSON.stringify(wanted)}.`,
  );
}
