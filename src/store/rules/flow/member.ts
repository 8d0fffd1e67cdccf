/**
 * What rule R4 has to know of a job before anything arrives: whether it makes part of a flow, is one, waits for others,
 * and how far its own end has been passed on.
 */
import { readNeed, readWaits, writeWaits } from "../../../model/flow/flow-waits.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import type { JobRow } from "../../job-fields.ts";
import type { NewJob } from "../../records.ts";
import type { Outcome } from "../advance.ts";

/** A member of a flow. What was not read of a row is undefined, and then it has no `waits`. */
export function isMember(row: Pick<JobRow, "waits" | "flow">): boolean {
  return row.waits !== null && typeof row.flow === "string";
}

/** A flow, of which others make part; it may be a member itself. */
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

/** What a change of a job means to its flow, behind everything else of its unit. */
export interface Aftermath {
  /** A member has ended: its end goes along its edges. */
  readonly ends: boolean;
  /** A member has come back: its flow counts it among the living again. */
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
