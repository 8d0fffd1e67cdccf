/**
 * Rule R4 in reverse: a finished member of a flow waits for others again, or a blocked one is counted again. Parents
 * that have ended and passed their end on to this job arrive at once.
 */
import type { Block } from "../../../model/job/change.ts";
import { idOfNode, readEdge } from "../../../model/flow/edge.ts";
import { readFreed } from "../../../model/flow/freed.ts";
import { readWaits, writeWaits } from "../../../model/flow/flow-waits.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import type { JobRow } from "../../job-fields.ts";
import { advance } from "../advance.ts";
import type { Outcome } from "../advance.ts";
import { counted } from "./arrive.ts";
import { placeOf } from "../place.ts";
import { comeBack } from "../replay.ts";

/** Finds a job by its id, live or finished. */
export type JobById = (id: string) => JobRow | null;

export function block(row: JobRow, next: Block, jobById: JobById, now: number): Outcome {
  let waits = { ...readWaits(row.waits as string), ...next.waits, passed: 0 };
  for (const text of next.parents) {
    const edge = readEdge(text);
    const ended = arrivedFrom(jobById(edge.target), row.id);
    if (ended !== null) waits = counted(waits, edge, ended, 1);
  }
  const isFreed = row.freed !== null && waits.need <= 0 && waits.slack >= 0;
  const fields: Partial<JobRow> = {
    ...(isFreed ? placeOf(readFreed(row.freed as string), now) : { state: stateCodes.blocked, ttlAt: null }),
    attempt: next.attempt ?? row.attempt,
    countsAttempt: 1,
    waits: writeWaits(waits),
    deadlineAt: hasOutlived(row, now) ? null : row.deadlineAt,
  };
  // A flow that keeps its counts may be decided already.
  const isDecided = row.freed === null && waits.need <= 0;
  const outcome: Outcome =
    row.state === stateCodes.blocked
      ? { row: advance(row, fields), event: next.event, isKept: true, key: "stays" }
      : comeBack(row, next.event, fields);
  return { ...outcome, defers: waits.slack < 0 || isDecided || (isFreed && waits.defers === 1) };
}

/** A finished job whose deadline has passed would end at once if it came back with it. */
const hasOutlived = ({ state, deadlineAt }: JobRow, now: number): boolean =>
  state >= stateCodes.completed && deadlineAt !== null && deadlineAt <= now;

/** The state in which a parent has ended and arrived at this job; null if it has not arrived yet. */
function arrivedFrom(parent: JobRow | null, id: string): number | null {
  // A deleted parent counts as one that never ran.
  if (parent === null) return stateCodes.skipped;
  if (parent.state < stateCodes.completed || parent.waits === null) return null;
  const isHere = (text: string): boolean => idOfNode(parent.flow ?? parent.id, readEdge(text).target) === id;
  const at = (parent.edges ?? []).findIndex(isHere);
  return at < readWaits(parent.waits).passed ? parent.state : null;
}
