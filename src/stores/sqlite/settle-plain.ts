/**
 * The plain road of a settle: running jobs that end, as sets (rule R3). Their rows move inside SQLite: reading them
 * out and binding them again costs 5.4 us per job by 500, moving them in place 2.9.
 */
import { stateCodes } from "../../model/job-state.ts";
import type { Finish } from "../../model/change.ts";
import { areAlike } from "../../store/plain.ts";
import { assertArrow } from "../../store/rules/advance.ts";
import { storeLimits } from "../../store/limits.ts";
import { passOn } from "../../store/rules/arrive.ts";
import type { Passing } from "../../store/rules/arrive.ts";
import { keepUntilOf, keptForeverAt } from "../../store/rules/finish.ts";
import { uniqueHolds } from "../../store/rules/unique-holds.ts";
import { noteOf } from "../../store/rules/tell.ts";
import { count, tellEvent } from "../../store/rules/telling.ts";
import { columnList, finishedNames } from "./columns.ts";
import type { Formulas } from "./columns.ts";
import { openRowSets, runRowSets } from "./connection.ts";
import type { RowSet, SqlValue } from "./connection.ts";
import { forgetJobs } from "./forget.ts";
import { leaveLanes } from "./lanes.ts";
import { hasLanes } from "./routes.ts";
import { liveReader } from "./rows.ts";
import type { Member } from "./rows.ts";
import { runOnSeqs } from "./seq-list.ts";
import type { Step } from "./step.ts";
import { freeKey } from "./unique.ts";

/** What the guard and the end of a job need to know of it. */
export const readLeases = liveReader([
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
]);
export type Lease = ReturnType<typeof readLeases>[number];

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

/** Inputs: state, time, keep until and reason by name; then these of each row. */
function openMove(inputs: string, formulas: Formulas): readonly RowSet[] {
  const insert = `INSERT INTO millrace_history (${columns}) SELECT ${columnList(finishedNames, formulas, "j.")}`;
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
  for (const end of ends) {
    if (end.lease.holds !== uniqueHolds.none) freeKey(statements, end.lease.seq);
    tellEnd(step, end);
  }
  const kept = ends.filter(isKept);
  for (let from = 0; from < kept.length;) from += moveAlike(step, kept, from);
  runOnSeqs(statements, dropLive, seqsOf(ends));
  // Behind their rows, which say who holds a lane, and before their specs.
  leaveLanesOf(step, ends);
  forgetJobs(statements, seqsOf(ends.filter((end) => !isKept(end))));
}

/** A member of a flow is kept, whatever its end says. */
function isKept({ next, member }: End): boolean {
  return next.keepMs !== 0 || member !== undefined;
}

function leaveLanesOf(step: Step, ends: readonly End[]): void {
  const laned = new Set<number>();
  for (const { lease } of ends) laned.add(lease.route);
  for (const route of laned) if (!hasLanes(step, route)) laned.delete(route);
  if (laned.size > 0) leaveLanes(step, seqsOf(ends.filter(({ lease }) => laned.has(lease.route))));
}

function seqsOf(ends: readonly End[]): number[] {
  return ends.map(({ lease }) => lease.seq);
}

function tellEnd(step: Step, end: End): void {
  const { lease, next, attempts } = end;
  const { id, route, state, rev, attempt } = lease;
  const ended = stateCodes[next.to];
  assertArrow(state, ended);
  count(step, route, state, -1);
  if (isKept(end)) count(step, route, ended, 1);
  const note = noteOf(lease, attempts);
  tellEvent(step, {
    kind: next.event,
    id,
    rev: rev + 1,
    route,
    state: ended,
    attempt,
    extra: next.reason,
    note,
  });
}

/** Moves the jobs from this one on that differ only in their results and attempt logs. Answers how many. */
function moveAlike(step: Step, ends: readonly End[], from: number): number {
  const { statements, now } = step;
  const { next: like, member: first } = ends[from] as End;
  const areMembers = first !== undefined;
  const width = areMembers ? 4 : 3;
  const values: SqlValue[] = [];
  let passing: MemberPassing | null = null;
  for (const { lease, next, attempts, member } of ends.slice(from)) {
    if (!areAlike(next, like) || (member !== undefined) !== areMembers) break;
    values.push(lease.seq, next.result, attempts);
    if (member === undefined) continue;
    passing = passingOf(member, lease, passing);
    step.ended.push({ id: lease.id, state: stateCodes[next.to], passing });
    values.push(passing.waits);
  }
  const keepUntil = areMembers ? keptForeverAt : keepUntilOf(like, now);
  const named = { state: stateCodes[like.to], now, keepUntil, reason: like.reason };
  runRowSets(statements, areMembers ? moveMembers : moveRows, { values, width }, () => named);
  return values.length / width;
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
