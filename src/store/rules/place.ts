/**
 * Rule R1: a job among the waiting, where a worker will find it. A new job is placed by its submit; a running one comes back by a retry, a
 * snooze, a hand-back or a reclaim; a waiting one is moved by a reschedule. Due at once means ready, else scheduled.
 */
import type { HandBack, Schedule } from "../../model/change.ts";
import { stateCodes } from "../../model/job-state.ts";
import { fieldNames } from "../job-fields.ts";
import type { JobField, JobFieldName, JobRow } from "../job-fields.ts";
import type { NewJob } from "../records.ts";
import { advance, clearedBy, initialValues } from "./advance.ts";
import type { Outcome } from "./advance.ts";
import { edit } from "./edit.ts";
import { dueAtOf, timerAtOf } from "./timer.ts";
import { holdCode, holdsOf } from "./unique-holds.ts";

/** Where a job stands among the waiting. */
export type Place = Pick<JobRow, "state" | "rank" | "dueAt" | "ttlAt">;

/** What a submit and a schedule say about the place. */
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

/** What of a new job depends on the time of its submit. */
export type NewPlace = Place & Pick<JobRow, "deadlineAt" | "timerAt">;

export function newPlaceOf(job: NewJob, now: number): NewPlace {
  const place = placeOf(job, now);
  const deadlineAt = deadlineAtOf(job, now);
  const timerAt = timerAtOf({ ...place, deadlineAt, leaseEndsAt: null, attemptEndsAt: null });
  return { ...place, deadlineAt, timerAt };
}

export function deadlineAtOf({ deadline }: NewJob, now: number): number | null {
  return deadline === null ? null : dueAtOf(deadline, now);
}

/** Fields that a submit gives under their own names: what the job is, and what is rare of its state. */
const isGiven = ({ home, isRare }: JobField): boolean =>
  home === "spec" || (home === "state" && isRare === true);
const givenNames = fieldNames(isGiven);

/** What a submit gives of a job's row, as far as it does not depend on the time, the seq and the route. */
export function givenBy(job: NewJob): Partial<JobRow> {
  const given: Partial<Record<JobFieldName, unknown>> = initialValues(isGiven);
  const named = job as unknown as Readonly<Partial<Record<JobFieldName, unknown>>>;
  for (const name of givenNames) if (named[name] !== undefined) given[name] = named[name];
  given.tags = tagsOf(job);
  given.uniqueKey = job.unique?.key ?? null;
  given.uniqueHold = job.unique === null ? null : holdCode(job.unique.hold);
  return given as Partial<JobRow>;
}

/** No tags are null, never an empty list. */
export function tagsOf({ tags }: NewJob): readonly string[] | null {
  return tags === null || tags.length === 0 ? null : tags;
}

const fresh = initialValues(({ home }) => home !== "spec");

export interface NewSeat {
  readonly seq: number;
  readonly route: number;
  readonly now: number;
}

/** A new job: what its submit gives, and the initial value of everything else. */
export function placeNew(job: NewJob, { seq, route, now }: NewSeat): Outcome {
  const given = givenBy(job);
  const holds = holdsOf(given.uniqueHold ?? null);
  const place = newPlaceOf(job, now);
  const row = { ...fresh, ...given, ...place, seq, route, holds, createdAt: now } as JobRow;
  return { row, event: "submitted", isKept: true, key: job.unique === null ? "stays" : "taken" };
}

const cleared = clearedBy("place");

/** A live job that waits (again). Its lease is over; who ran it last stays. */
export function place(row: JobRow, next: Schedule | HandBack, now: number): Outcome {
  const placed = advance(row, { ...cleared, ...waitingFields(row, next, now) });
  return { row: placed, event: next.event, isKept: true, key: "stays" };
}

/** What a schedule or a hand-back makes of the job's own fields. */
export function waitingFields(row: JobRow, next: Schedule | HandBack, now: number): Partial<JobRow> {
  const { countsAttempt } = next;
  if (next.to === "ready") return { state: stateCodes.ready, countsAttempt };
  const { deadlineAt } = row;
  const isPassed = deadlineAt !== null && deadlineAt <= now;
  return {
    ...placeOf(next, now),
    ...edit(next.edit),
    countsAttempt,
    attempt: next.attempt ?? row.attempt,
    deadlineAt: isPassed && next.clearsPassedDeadline === true ? null : deadlineAt,
  };
}
