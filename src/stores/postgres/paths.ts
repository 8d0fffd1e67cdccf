/**
 * The paths of Postgres (store/paths.ts). The paths of submits, settles, changes and documents are chosen here, because
 * this process packs them. The path of a claim is chosen in claim_v1, which always works in sets; its set of plain
 * routes is the general path.
 */
import type { Change, LeasedWrite, Settle, SubmitUnit } from "../../store/operations.ts";
import type { StorePaths } from "../../store/paths.ts";
import {
  arePlainEnds,
  isGrowth,
  isOfFlow,
  isPlainButForFlow,
  isPlainSettle,
  isPlainUnit,
} from "../../store/path-predicates.ts";
import type { DocPut } from "../../store/records.ts";
import { tagsOf } from "../../store/rules/place.ts";
import { isLarge } from "./jobs/packed-unit.ts";

export const postgresPaths = {
  /**
   * Takes a unit, and whether it is alone in its call. Inside the caller's own transaction a call never counts as
   * alone.
   */
  submit: [
    { path: "one job", takes: (unit: SubmitUnit, isAlone: boolean) => isAlone && isOneJob(unit) },
    { path: "flow members", takes: (unit: SubmitUnit) => isSetUnit(unit) && unit.jobs.some(isOfFlow) },
    { path: "set", takes: (unit: SubmitUnit) => isSetUnit(unit) },
  ],
  /** Takes an offer. v_laned: the routes of the call that have lanes. */
  claim: [{ path: "lanes", takes: { inStore: "v_offer && v_laned" } }],
  /**
   * Takes a settle. Its running job may be a member of a flow, may be in a lane and hold keys, and may be a durable run
   * whose end adds nothing to its journal.
   */
  settle: [{ path: "set", takes: (settle: Settle) => isPlainSettle(withoutJournal(settle)) }],
  /** Takes a write with entries of a durable run. */
  record: [{ path: "set", takes: (write: LeasedWrite) => isPlainRecord(write) }],
  /** Takes all changes of a call. Whether their jobs are plain is checked in their rows (jobs/change.sql.ts). */
  change: [{ path: "set", takes: (changes: readonly Change[]) => arePlainEnds(changes) }],
  /** Takes all puts of a call. */
  putDocs: [{ path: "set", takes: (puts: readonly DocPut[]) => areDeletes(puts) }],
} as const satisfies StorePaths;

/** Entries for a journal, and nothing else. */
function isPlainRecord({ entries, effects, progress, logs, frames, steps }: LeasedWrite): boolean {
  const isAlone = [progress, logs, frames, steps].every((part) => part === undefined);
  return entries !== undefined && effects === undefined && isAlone;
}

function withoutJournal(settle: Settle): Settle {
  const { journal, ...plain } = settle;
  return journal !== undefined && journal.seen === null && journal.entries.length === 0 ? plain : settle;
}

/** A plain job with a small input and no tags: only its row is written. */
function isOneJob(unit: SubmitUnit): boolean {
  const [job] = unit.jobs;
  if (job === undefined || unit.jobs.length !== 1) return false;
  return isPlainUnit(unit) && tagsOf(job) === null && !isLarge(job.input);
}

/** Jobs that are plain, or special only by their lane and flow, with or without checks. */
function isSetUnit(unit: SubmitUnit): boolean {
  const { docs = [], isRepeat, jobs, checks = [] } = unit;
  return (
    isRepeat !== true &&
    docs.length === 0 &&
    !isGrowth(unit) &&
    jobs.every(isPlainButForFlow) &&
    (jobs.length > 0 || checks.length === 0)
  );
}

/**
 * Deletes of documents, each at a known version and without events. Version 0 stands for an absent document, so it is
 * no delete.
 */
function areDeletes(puts: readonly DocPut[]): boolean {
  return (
    puts.every(
      ({ guard, body, emits }) =>
        typeof guard === "object" && guard.version > 0 && body === null && emits === undefined,
    ) && new Set(puts.map(placeOf)).size === puts.length
  );
}

const placeOf = ({ kind, id }: DocPut): string => JSON.stringify([kind, id]);
