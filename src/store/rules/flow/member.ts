/**
 * What rule R4 needs to know of a job before anything arrives: whether it is a member of a flow, is a flow, waits for
 * others, and how far its own end was passed on.
 */
import { readNeed, readWaits, writeWaits } from "../../../model/flow/flow-waits.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import type { JobRow } from "../../job-fields.ts";
import type { NewJob } from "../../records.ts";
import type { Outcome } from "../advance.ts";

/** Whether a job is a member of a flow. Fields of a row that were not read are undefined; then it has no `waits`. */
export function isMember(row: Pick<JobRow, "waits" | "flow">): boolean {
  return row.waits !== null && typeof row.flow === "string";
}

/** Whether a job is a flow; it may be a member itself. */
export function isFlow({ waits }: Pick<JobRow, "waits">): boolean {
  return waits !== null && readWaits(waits).members !== null;
}

export function isBornBlocked({ waits = null, freed = null }: Pick<NewJob, "waits" | "freed">): boolean {
  return waits !== null && (freed === null || readNeed(waits) > 0);
}

/** Whether the end of a member has gone along all its edges; true of any other job. */
export function hasPassedOn({ waits, edges }: Pick<JobRow, "waits" | "edges">): boolean {
  return waits === null || readWaits(waits).passed >= (edges?.length ?? 0);
}

/** The waits of a finished job that comes back. */
export function unpassed({ waits }: Pick<JobRow, "waits">): string | null {
  return waits === null ? null : writeWaits({ ...readWaits(waits), passed: 0 });
}

/** The effect of a change of a job on its flow, after everything else of its unit. */
export interface Aftermath {
  /** A member has ended: its end goes along its edges. */
  readonly ends: boolean;
  /** A member has come back: its flow counts it as live again. */
  readonly comesBack: boolean;
  /** Deferred work is left under the job's id. */
  readonly defers: boolean;
}

export function aftermathOf(from: JobRow, { row, isKept, defers = false }: Outcome): Aftermath {
  const isOver = (job: JobRow): boolean => job.state >= stateCodes.completed;
  const isOfFlow = isKept && isMember(row);
  return {
    ends: isOfFlow && !isOver(from) && isOver(row),
    comesBack: isOfFlow && isOver(from) && !isOver(row),
    defers: defers || (!isKept && isFlow(from)),
  };
}
