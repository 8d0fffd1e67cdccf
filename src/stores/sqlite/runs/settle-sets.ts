/**
 * The set paths of a settle: running jobs that end (rule R3), plain ones and members of flows. Their rows move inside
 * SQLite: reading them out and binding them again costs 5.4 us per job by 500, moving them in place 2.9.
 */
import { eventCodes } from "../../../model/events/event-kind.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import type { Finish } from "../../../model/job/change.ts";
import { areAlike } from "../../../store/path-predicates.ts";
import { assertArrow } from "../../../store/rules/advance.ts";
import { storeLimits } from "../../../store/contract-limits.ts";
import { passOn } from "../../../store/rules/flow/arrive.ts";
import type { Passing } from "../../../store/rules/flow/arrive.ts";
import { keepUntilOf, keptForeverAt } from "../../../store/rules/finish.ts";
import { uniqueHolds } from "../../../store/rules/unique-holds.ts";
import { noteOf } from "../../../store/rules/emit.ts";
import { count, emitEvent } from "../../../store/rules/call-events.ts";
import type { EmittedBundle } from "../../../store/rules/call-events.ts";
import { columnList, finishedNames, placesOf } from "../connection/columns.ts";
import type { Formulas, Picked } from "../connection/columns.ts";
import type { JobFieldName } from "../../../store/job-fields.ts";
import { openRowSets, runRowSets } from "../connection/connection.ts";
import type { RowSet, SqlValue } from "../connection/connection.ts";
import { deleteJobs } from "../jobs/delete-job.ts";
import { leaveLanes } from "../groups/lanes.ts";
import { hasLanes } from "../jobs/routes.ts";
import type { Member } from "../jobs/job-rows.ts";
import { readOnSeqs, runOnSeqs } from "../connection/seq-list.ts";
import type { Step } from "../connection/transaction.ts";
import { freeKey } from "../jobs/unique-keys.ts";
import { sql } from "../../../store/sql.ts";

const leaseNames = [
  "seq",
  "id",
  "route",
  "state",
  "rev",
  "attempt",
  "holds",
  "fence",
  "startedAt",
  "waits",
] as const satisfies readonly JobFieldName[];
/** What the guard and the end of a job need to know of it. */
export type Lease = Picked<(typeof leaseNames)[number]>;

/** Inputs: the seqs. */
const selectLeases = sql`SELECT ${columnList(leaseNames)} FROM millrace_job`;
const at = placesOf(leaseNames);

/** Live jobs by seq; those that are not live are left out. */
export function readLeases({ statements }: Step, seqs: readonly number[]): Lease[] {
  return readOnSeqs(statements, selectLeases, seqs).map(readLease);
}

function readLease(values: unknown): Lease {
  const row = values as readonly never[];
  return {
    seq: row[at.seq] as never,
    id: row[at.id] as never,
    route: row[at.route] as never,
    state: row[at.state] as never,
    rev: row[at.rev] as never,
    attempt: row[at.attempt] as never,
    holds: row[at.holds] as never,
    fence: row[at.fence] as never,
    startedAt: row[at.startedAt] as never,
    waits: row[at.waits] as never,
  };
}

/** `finish` of store/rules/finish.ts, by the holder of the lease. */
const finished: Formulas = {
  state: "@state",
  rev: "j.rev + 1",
  settledFence: "j.fence",
  endedAt: "@now",
  keepUntil: "@keepUntil",
  resultUntil: "NULL",
  reason: "@reason",
  result: "e.result",
  attempts: "ifnull(e.attempts, j.attempts)",
};
const columns = columnList(finishedNames);

function insertBy(formulas: Formulas): string {
  return `INSERT INTO millrace_history (${columns}) SELECT ${columnList(finishedNames, formulas, "j.")}`;
}

/** Inputs: state, time, keep until and reason by name; then these of each row. */
function openMove(inputs: string, formulas: Formulas): readonly RowSet[] {
  const insert = insertBy(formulas);
  const one = inputs.replaceAll(/\w+/g, "? AS $&");
  return openRowSets(
    inputs,
    (set) => `WITH ${set} ${insert} FROM e CROSS JOIN millrace_job j ON j.seq = e.seq`,
    `${insert} FROM (SELECT ${one}) e CROSS JOIN millrace_job j ON j.seq = e.seq`,
  );
}

/** Of each row its seq, its result and its attempts (or null). */
const moveRows = openMove("seq, result, attempts", finished);
/** Of members of flows also how far their ends have gone. */
const moveMembers = openMove("seq, result, attempts, waits", { ...finished, waits: "e.waits" });
/** Inputs: the seqs. */
const dropLive = "DELETE FROM millrace_job";

/** A job that ends. */
export interface End {
  readonly lease: Lease;
  readonly next: Finish;
  readonly attempts: string | null;
  /** Of a member of a flow. */
  readonly member?: Member;
}

/** Guard: each was read as leased in the same transaction. */
export function finishJobs(step: Step, ends: readonly End[]): void {
  if (ends.length === 0) return;
  const { statements } = step;
  const seqs: number[] = [];
  let deleted: number[] | null = null;
  let emitted: EmittedBundle | undefined;
  for (let place = 0; place < ends.length; place++) {
    const end = ends[place] as End;
    const { seq, holds } = end.lease;
    if (holds !== uniqueHolds.none) freeKey(statements, seq);
    emitted = emitEnd(step, end, emitted);
    seqs.push(seq);
    if (!isKept(end)) (deleted ??= []).push(seq);
  }
  const kept = deleted === null ? ends : ends.filter(isKept);
  for (let from = 0; from < kept.length;) from += moveAlike(step, kept, from);
  runOnSeqs(statements, dropLive, seqs);
  // Before their specs, which say what they hold.
  leaveLanesOf(step, ends);
  if (deleted !== null) deleteJobs(statements, deleted);
}

/** A member of a flow is kept, whatever its end says. */
function isKept({ next, member }: End): boolean {
  return next.keepMs !== 0 || member !== undefined;
}

/** What ends on a route with lanes gives back what it holds of its keys. */
function leaveLanesOf(step: Step, ends: readonly End[]): void {
  // Ends of one route mostly follow each other, and looking a route up takes as long as all else here.
  let route: number | null = null;
  let isLaned = false;
  let laned: number[] | null = null;
  for (let place = 0; place < ends.length; place++) {
    const { lease } = ends[place] as End;
    if (lease.route !== route) {
      route = lease.route;
      isLaned = hasLanes(step, route);
    }
    if (isLaned) (laned ??= []).push(lease.seq);
  }
  if (laned !== null) leaveLanes(step, laned);
}

/** @param emitted the bundle that has the end before. @returns that of this one. */
function emitEnd(step: Step, end: End, emitted: EmittedBundle | undefined): EmittedBundle | undefined {
  const { lease, next, attempts } = end;
  const { id, route, state, attempt } = lease;
  const rev = lease.rev + 1;
  const ended = stateCodes[next.to];
  assertArrow(state, ended);
  count(step, route, state, -1);
  if (isKept(end)) count(step, route, ended, 1);
  const note = noteOf(lease, attempts);
  // Most differ from the one before in id and note alone: no event is made of these.
  if (
    emitted?.notes !== undefined &&
    note !== "" &&
    emitted.kind === eventCodes[next.event] &&
    emitted.state === ended &&
    emitted.rev === rev &&
    emitted.route === route &&
    emitted.attempt === attempt &&
    emitted.extra === next.reason
  ) {
    emitted.ids.push(id);
    emitted.notes.push(note);
    return emitted;
  }
  emitEvent(step, { kind: next.event, id, rev, route, state: ended, attempt, extra: next.reason, note });
  return step.events.at(-1);
}

/** Moves the jobs from this one on that differ only in their results and attempt logs. Answers how many. */
function moveAlike(step: Step, ends: readonly End[], from: number): number {
  const { statements, now } = step;
  const { next: like, member: first } = ends[from] as End;
  const areMembers = first !== undefined;
  let to = from + 1;
  for (; to < ends.length; to++) {
    const { next, member } = ends[to] as End;
    if (!areAlike(next, like) || (member !== undefined) !== areMembers) break;
  }
  const alike = from === 0 && to === ends.length ? ends : ends.slice(from, to);
  const keepUntil = areMembers ? keptForeverAt : keepUntilOf(like, now);
  const named = { state: stateCodes[like.to], now, keepUntil, reason: like.reason };
  if (areMembers) runRowSets(statements, moveMembers, memberRows(step, alike), () => named);
  else runRowSets(statements, moveRows, plainRows(alike), () => named);
  return alike.length;
}

interface Rows {
  readonly values: readonly SqlValue[];
  readonly width: number;
}

function plainRows(ends: readonly End[]): Rows {
  const values: SqlValue[] = [];
  for (let place = 0; place < ends.length; place++) {
    const { lease, next, attempts } = ends[place] as End;
    values.push(lease.seq, next.result, attempts);
  }
  return { values, width: 3 };
}

/** Their ends are to be passed on from here. */
function memberRows(step: Step, ends: readonly End[]): Rows {
  const values: SqlValue[] = [];
  let passing: MemberPassing | null = null;
  for (let place = 0; place < ends.length; place++) {
    const { lease, next, attempts, member } = ends[place] as End;
    passing = passingOf(member as Member, lease, passing);
    step.ended.push({ id: lease.id, state: stateCodes[next.to], passing });
    values.push(lease.seq, next.result, attempts, passing.waits);
  }
  return { values, width: 4 };
}

/** The way of an end along its edges, with what it was computed from. */
interface MemberPassing extends Passing {
  readonly of: { readonly member: Member; readonly waits: string | null };
}

/** @param last the way of another end: members that are alike go the same, which is computed once. */
function passingOf(member: Member, { waits }: Lease, last: MemberPassing | null): MemberPassing {
  if (last !== null && last.of.member === member && last.of.waits === waits) return last;
  return { ...passOn({ ...member, waits }, storeLimits.edgesAtOnceMax), of: { member, waits } };
}
