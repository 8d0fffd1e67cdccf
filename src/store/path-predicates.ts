/**
 * The predicates of the tables of paths (paths.ts), shared by all stores. Plain work has nothing special, so a store
 * writes it as a set. The general path applies the rules to one job after the other, still in one call. Both leave the
 * same rows.
 */
import { arrows, isTerminal } from "../model/job/job-state.ts";
import type { JobState } from "../model/job/job-state.ts";
import type { ChangeNext, Finish, SettleNext } from "../model/job/change.ts";
import { fieldNames, jobFields } from "./job-fields.ts";
import type { JobField, JobFieldName } from "./job-fields.ts";
import type { LaneFields } from "../model/routing/lane.ts";
import type { Change, Guard, Settle, SubmitUnit } from "./operations.ts";
import type { Growth, NewJob } from "./records.ts";

/**
 * Fields that a submit may give beyond those of every job, read once: the table does not change while a process runs.
 */
const rareFields = fieldNames(({ isRare }) => isRare === true).filter(
  (name) => name !== "digest" && name !== "uniqueKey" && name !== "uniqueHold",
);

const laneFields: readonly string[] = ["laneKey", "laneStep", "laneGates"] satisfies (keyof LaneFields)[];
const rareBesideLane = rareFields.filter((name) => !laneFields.includes(name));

const flowFields: readonly string[] = ["flow", "edges", "freed", "waits"] satisfies (keyof NewJob)[];
const rareBesideFlow = rareBesideLane.filter((name) => !flowFields.includes(name));

/** A new job that cannot be refused or conflict: its id is minted, and it has no unique key and no rare field. */
export function isPlainJob(job: NewJob): boolean {
  return (
    job.digest === null &&
    job.unique === null &&
    hasNeitherLaneNorFlow(job) &&
    (rareBesideFlow.length === 0 || hasNothingRare(job, rareBesideFlow))
  );
}

/**
 * `hasNothingRare` of `laneFields` and `flowFields`, written out: a lookup by a variable name takes ten times as long.
 */
function hasNeitherLaneNorFlow(job: NewJob): boolean {
  return (
    (job.laneKey ?? null) === null &&
    (job.laneStep ?? null) === null &&
    (job.laneGates ?? null) === null &&
    (job.flow ?? null) === null &&
    (job.edges ?? null) === null &&
    (job.freed ?? null) === null &&
    (job.waits ?? null) === null
  );
}

/** The same, also with a lane: for a store in which jobs join their lanes as a set. */
export function isPlainButForLane(job: NewJob): boolean {
  return job.digest === null && job.unique === null && hasNothingRare(job, rareBesideLane);
}

/** The same, also with a lane, as a flow or as a member: for a store that takes these as a set, too. */
export function isPlainButForFlow(job: NewJob): boolean {
  return job.digest === null && job.unique === null && hasNothingRare(job, rareBesideFlow);
}

function hasNothingRare(job: NewJob, fields: readonly JobFieldName[]): boolean {
  return fields.every((name) => {
    const value = (job as unknown as Readonly<Record<string, unknown>>)[name];
    return value === undefined || value === ((jobFields[name] as JobField).initial ?? null);
  });
}

/** A unit that cannot be refused: plain jobs, no documents, and no earlier try that may have happened. */
export function isPlainUnit(unit: SubmitUnit, isPlain = isPlainJob): boolean {
  return (
    meetsNoDocs(unit) && !isGrowth(unit) && unit.isRepeat !== true && unit.jobs.every((job) => isPlain(job))
  );
}

/** Whether members join an existing flow. */
export function isGrowth({ grows, links }: Growth): boolean {
  return (grows !== undefined && grows.length > 0) || (links !== undefined && links.length > 0);
}

export const isOfFlow = ({ waits = null }: Pick<NewJob, "waits">): boolean => waits !== null;

function meetsNoDocs({ docs, checks }: SubmitUnit): boolean {
  return (docs === undefined || docs.length === 0) && (checks === undefined || checks.length === 0);
}

/**
 * Whether a unit may be refused after a part of it was written, so that it needs a rollback. A single job is looked up
 * before its unit writes anything. So are checks, except in a repeat, which first asks whether it has happened.
 */
export function mayBeRefusedLate(unit: SubmitUnit): boolean {
  const { jobs, docs, checks, isRepeat } = unit;
  if ((docs !== undefined && docs.length > 0) || isGrowth(unit)) return true;
  if (isRepeat === true && (jobs.length > 1 || (checks !== undefined && checks.length > 0))) return true;
  return jobs.length > 1 && jobs.some(mayMeet);
}

/** Whether a job may conflict: by a given id, or as a member of a flow by its key. */
function mayMeet(job: NewJob): boolean {
  return job.digest !== null || (job.unique !== null && isOfFlow(job));
}

export function isFinish(next: SettleNext): next is Finish {
  return isTerminal(next.to as JobState);
}

/** Whether two endings differ in their results alone, so that the shared part is written and emitted once. */
export function areAlike(one: Finish, other: Finish): boolean {
  if (one === other) return true;
  return (
    one.to === other.to &&
    one.event === other.event &&
    one.reason === other.reason &&
    one.keepMs === other.keepMs &&
    one.keepResultMs === other.keepResultMs &&
    one.keepsLane === other.keepsLane
  );
}

/**
 * A settle that ends its job, keeps the result as long as the job, has no effects, does not go on holding a lane and is
 * not of a durable run.
 */
export function isPlainSettle(settle: Settle): settle is Settle & { readonly next: Finish } {
  const { effects, journal, next } = settle;
  if (effects !== undefined || journal !== undefined || !isFinish(next)) return false;
  return next.keepResultMs === undefined && next.keepsLane === undefined;
}

/**
 * Changes that end jobs of one waiting state, all in the same way, with their results; each job once. Not plain: a
 * result that is kept shorter than its job, a lane that is still held, and a job of which nothing is kept.
 */
export function arePlainEnds(changes: readonly Change[]): boolean {
  const [first] = changes;
  const shared = first?.cases[0];
  const [state] = shared?.guard.states ?? [];
  if (shared === undefined || state === undefined || !isPlainEnd(shared.next)) return false;
  // The general path refuses an end to which no transition leads.
  if (!arrows[state].includes(shared.next.to)) return false;
  return (
    changes.every(({ token, cases }) => {
      const [only] = cases;
      return (
        token === undefined &&
        cases.length === 1 &&
        only !== undefined &&
        only.append === undefined &&
        isGuardOf(only.guard, state) &&
        isPlainEnd(only.next) &&
        areAlike(only.next, shared.next as Finish) &&
        only.next.result === (shared.next as Finish).result &&
        only.attempts === shared.attempts
      );
    }) && new Set(changes.map(({ id }) => id)).size === changes.length
  );
}

function isGuardOf({ states, fence, rang, marks }: Guard, state: JobState): boolean {
  const isWaiting = !isTerminal(state) && state !== "running";
  return (
    isWaiting &&
    states.length === 1 &&
    states[0] === state &&
    fence === undefined &&
    rang === undefined &&
    marks === undefined
  );
}

function isPlainEnd(next: ChangeNext): next is Finish {
  if (!isTerminal(next.to as JobState)) return false;
  const { keepMs, keepResultMs, keepsLane } = next as Finish;
  return keepMs !== 0 && keepResultMs === undefined && keepsLane === undefined;
}
