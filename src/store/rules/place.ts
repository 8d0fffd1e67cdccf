/**
 * Rule R1: puts a job where it waits for a worker. A submit places a new job. A retry, a snooze, a hand-back or a
 * reclaim places a running job again. A reschedule places a waiting job again. A job that is due at once is ready, else
 * scheduled.
 */
import type { HandBack, Schedule } from "../../model/job/change.ts";
import { stateCodes } from "../../model/job/job-state.ts";
import { fieldNames } from "../job-fields.ts";
import type { JobField, JobFieldName, JobFields, JobRow } from "../job-fields.ts";
import type { NewJob } from "../records.ts";
import { advance, clearedBy, initialValues } from "./advance.ts";
import type { Outcome } from "./advance.ts";
import { edit } from "./edit.ts";
import { asLaned } from "./gates/lane-change.ts";
import { isBornBlocked } from "./flow/member.ts";
import { newRound } from "./journal.ts";
import { dueAtOf, timerAtOf } from "./timer.ts";
import { holdCode, holdsOf, uniqueHolds } from "./unique-holds.ts";

/** The place of a waiting job. */
export type Place = Pick<JobRow, "state" | "rank" | "dueAt" | "ttlAt">;

/** The fields of a submit or a schedule about the place. */
export type PlaceRequest = Pick<NewJob, "due" | "rankBase" | "rankSlope" | "ttlMs">;

export function placeOf({ due, rankBase, rankSlope, ttlMs }: PlaceRequest, now: number): Place {
  const dueAt = dueAtOf(due, now);
  return {
    state: dueAt <= now ? stateCodes.ready : stateCodes.scheduled,
    rank: rankBase + rankSlope * dueAt,
    dueAt,
    ttlAt: ttlMs === null ? null : dueAt + ttlMs,
  };
}

export function deadlineAtOf({ deadline }: NewJob, now: number): number | null {
  return deadline === null ? null : dueAtOf(deadline, now);
}

/** The tags; null for none, never an empty list. */
export function tagsOf({ tags }: NewJob): readonly string[] | null {
  return tags === null || tags.length === 0 ? null : tags;
}

/** The fields of a spec that any job may have. */
type CommonSpec = {
  [
    Name in JobFieldName as JobFields[Name] extends { home: "spec" }
      ? JobFields[Name] extends { isRare: true }
        ? never
        : Name
      : never
  ]: JobRow[Name];
};

/** All that a submit says of a plain job (plain.ts). The other fields of its row have their initial values. */
export type PlainRow = CommonSpec & Place & Pick<JobRow, "route" | "deadlineAt" | "timerAt">;

/** What the store gives a new job. */
export interface StoreGiven {
  readonly seq: number;
  readonly route: number;
  readonly now: number;
}

/** Fields that the object below names; any other field of the table is copied by its name. */
const named: readonly string[] = [
  ...(["seq", "id", "createdAt", "tags", "policy", "meta", "input"] as const),
] satisfies (keyof CommonSpec)[];
const unnamed = fieldNames(
  ({ home, isRare }: JobField, name) => home === "spec" && isRare !== true && !named.includes(name),
);

export function placePlain(job: NewJob, { seq, route, now }: StoreGiven): PlainRow {
  const { state, rank, dueAt, ttlAt } = placeOf(job, now);
  const row: PlainRow = {
    seq,
    id: job.id,
    createdAt: now,
    tags: tagsOf(job),
    policy: job.policy,
    meta: job.meta,
    input: job.input,
    route,
    state,
    rank,
    dueAt,
    ttlAt,
    deadlineAt: deadlineAtOf(job, now),
    timerAt: null,
  };
  row.timerAt = timerAtOf(row);
  if (unnamed.length > 0) Object.assign(row, fieldsOf(job, unnamed));
  return row;
}

function fieldsOf(job: NewJob, names: readonly JobFieldName[]): Partial<JobRow> {
  const given = job as unknown as Readonly<Partial<Record<JobFieldName, never>>>;
  return Object.fromEntries(names.map((name) => [name, given[name]]));
}

/** Fields that a submit gives under their own names: the spec, and rare fields of the state. */
const isGiven = ({ home, isRare }: JobField): boolean =>
  home === "spec" || (home === "state" && isRare === true);
const givenNames = fieldNames(isGiven);
const nothingGiven = initialValues(isGiven);

/** What a submit gives of a job's row without time, seq and route. */
export function givenBy(job: NewJob): Partial<JobRow> {
  const named = job as unknown as Readonly<Partial<Record<JobFieldName, never>>>;
  const given: Partial<JobRow> = { ...nothingGiven };
  for (const name of givenNames) if (named[name] !== undefined) given[name] = named[name];
  given.tags = tagsOf(job);
  given.uniqueKey = job.unique?.key ?? null;
  given.uniqueHold = job.unique === null ? null : holdCode(job.unique.hold);
  return given;
}

const rareNames = fieldNames((field) => isGiven(field) && field.isRare === true);

/** A new job: all that its submit gives. The other fields of its row have their initial values. */
export function placeNew(job: NewJob, by: StoreGiven): PlainRow & Partial<JobRow> {
  const row: PlainRow & Partial<JobRow> = placePlain(job, by);
  const named = job as unknown as Readonly<Partial<Record<JobFieldName, never>>>;
  for (const name of rareNames) if (named[name] !== undefined) row[name] = named[name];
  if (isBornBlocked(job)) {
    row.state = stateCodes.blocked;
    row.ttlAt = null;
    row.timerAt = timerAtOf(row);
  }
  if (job.unique === null) return row;
  const hold = holdCode(job.unique.hold);
  row.uniqueKey = job.unique.key;
  row.uniqueHold = hold;
  row.holds = holdsOf(hold);
  return row;
}

/** The same with initial values for fields that a submit may give and this one does not: for an existing row. */
export function submittedBy(job: NewJob, by: StoreGiven): Partial<JobRow> & PlainRow {
  return { ...nothingGiven, holds: uniqueHolds.none, ...placeNew(job, by) };
}

const cleared = clearedBy("place");

/** A live job waits (again). Its lease ends; its last owner is kept. */
export function place(row: JobRow, next: Schedule | HandBack, now: number): Outcome {
  const placed = advance(row, { ...cleared, ...waitingFields(row, next, now) });
  return { row: placed, event: next.event, isKept: true, key: "stays" };
}

/** The job's fields after a schedule or a hand-back. */
export function waitingFields(row: JobRow, next: Schedule | HandBack, now: number): Partial<JobRow> {
  const { countsAttempt } = next;
  if (next.to === "ready") return { state: stateCodes.ready, countsAttempt };
  const { deadlineAt } = row;
  const isPassed = deadlineAt !== null && deadlineAt <= now;
  const placed = placeOf(next, now);
  // A replay of a job that holds its group goes on holding it until it is ready, as the first of its lane.
  const isHolding = row.state >= stateCodes.completed && row.keepsLane === 1;
  const keeps = (next.keepsLane === true || isHolding) && asLaned(row) !== null;
  return {
    ...placed,
    ...(keeps ? { rank: row.rank, keepsLane: placed.state === stateCodes.scheduled ? 1 : 0 } : {}),
    ...edit(next.edit),
    countsAttempt,
    attempt: next.attempt ?? row.attempt,
    ...(next.newRound === true ? { durable: newRound(row.durable) } : {}),
    deadlineAt: isPassed && next.clearsPassedDeadline === true ? null : deadlineAt,
  };
}
