/**
 * The paths of Postgres (store/paths.ts). Submits, settles, changes and documents are chosen here, because this process
 * packs them. A claim is chosen by claim_v1 and always goes by sets: that of plain routes is the general one.
 */
import type { Change, Settle, SubmitUnit } from "../../store/operations.ts";
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
  /** Of a unit, which is alone in its call or not. A call inside the caller's own transaction is never alone. */
  submit: [
    { path: "one job", takes: (unit: SubmitUnit, isAlone: boolean) => isAlone && isOneJob(unit) },
    { path: "flow members", takes: (unit: SubmitUnit) => isSetUnit(unit) && unit.jobs.some(isOfFlow) },
    { path: "set", takes: (unit: SubmitUnit) => isSetUnit(unit) },
  ],
  /** Of an offer. v_laned: the routes of the call that have lanes. */
  claim: [{ path: "lanes", takes: { inStore: "v_offer && v_laned" } }],
  /** Of a settle. Its running job may be a member of a flow, may stand in a lane and hold keys. */
  settle: [{ path: "set", takes: (settle: Settle) => isPlainSettle(settle) }],
  /** Of all changes of a call. Whether their jobs are plain only the rows can tell (jobs/change.sql.ts). */
  change: [{ path: "set", takes: (changes: readonly Change[]) => arePlainEnds(changes) }],
  /** Of all puts of a call. */
  putDocs: [{ path: "set", takes: (puts: readonly DocPut[]) => areDeletes(puts) }],
} as const satisfies StorePaths;

/** A plain job with a small input and no tags: nothing is written but its row. */
function isOneJob(unit: SubmitUnit): boolean {
  const [job] = unit.jobs;
  if (job === undefined || unit.jobs.length !== 1) return false;
  return isPlainUnit(unit) && tagsOf(job) === null && !isLarge(job.input);
}

/** Jobs that are plain, or to which nothing but lane and flow is special, with checks before them or without. */
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

/** Documents that each go at a known version, told to nobody; version 0 stands for one that is not there. */
function areDeletes(puts: readonly DocPut[]): boolean {
  return (
    puts.every(
      ({ guard, body, emits }) =>
        typeof guard === "object" && guard.version > 0 && body === null && emits === undefined,
    ) && new Set(puts.map(placeOf)).size === puts.length
  );
}

const placeOf = ({ kind, id }: DocPut): string => JSON.stringify([kind, id]);
