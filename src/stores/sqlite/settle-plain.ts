/**
 * The plain road of a settle: running jobs that end, as sets (rule R3). Their rows move inside SQLite: reading them
 * out and binding them again costs 5.4 us per job by 500, moving them in place 2.9.
 */
import { stateCodes } from "../../model/job-state.ts";
import type { Finish } from "../../model/change.ts";
import { areAlike } from "../../store/plain.ts";
import { assertArrow } from "../../store/rules/advance.ts";
import { keepUntilOf } from "../../store/rules/finish.ts";
import { uniqueHolds } from "../../store/rules/unique-holds.ts";
import { noteOf } from "../../store/rules/tell.ts";
import { count, moveLane, tellEvent } from "../../store/rules/telling.ts";
import { columnList, finishedNames } from "./columns.ts";
import type { Formulas } from "./columns.ts";
import { openRowSets, runRowSets } from "./connection.ts";
import type { SqlValue } from "./connection.ts";
import { forgetJobs } from "./forget.ts";
import { hasLanes } from "./routes.ts";
import { liveReader, readHolders } from "./rows.ts";
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
const width = 3;
/** Inputs: state, time, keep until and reason by name; then seq, result and attempts (or null) of each row. */
const moveRows = openRowSets(
  "seq, result, attempts",
  (set) => `WITH ${set} INSERT INTO millrace_history (${columns})
    SELECT ${columnList(finishedNames, finished, "j.")} FROM e CROSS JOIN millrace_job j ON j.seq = e.seq`,
  `INSERT INTO millrace_history (${columns}) SELECT ${columnList(finishedNames, finished, "j.")}
    FROM (SELECT ? AS seq, ? AS result, ? AS attempts) e CROSS JOIN millrace_job j ON j.seq = e.seq`,
);
/** Inputs: the seqs. */
const dropLive = "DELETE FROM millrace_job";

/** A job that ends. */
export interface End {
  readonly lease: Lease;
  readonly next: Finish;
  readonly attempts: string | null;
}

/** Guard: each was read as leased in the same transaction. */
export function finishJobs(step: Step, ends: readonly End[]): void {
  if (ends.length === 0) return;
  const { statements } = step;
  leaveLanes(step, ends);
  for (const end of ends) {
    if (end.lease.holds !== uniqueHolds.none) freeKey(statements, end.lease.seq);
    tellEnd(step, end);
  }
  const kept = ends.filter(({ next }) => next.keepMs !== 0);
  for (let from = 0; from < kept.length;) from += moveAlike(step, kept, from);
  forgetJobs(statements, seqsOf(ends.filter(({ next }) => next.keepMs === 0)));
  runOnSeqs(statements, dropLive, seqsOf(ends));
}

/** What ends on a route with lanes gives back what it holds of its keys. */
function leaveLanes(step: Step, ends: readonly End[]): void {
  const laned = ends.filter(({ lease }) => hasLanes(step, lease.route));
  if (laned.length === 0) return;
  const ended = new Map(laned.map(({ lease, next }) => [lease.seq, next]));
  for (const [seq, job] of readHolders(step.statements, seqsOf(laned))) {
    const { to, keepMs } = ended.get(seq) as Finish;
    moveLane(step, job, keepMs === 0 ? null : { ...job, state: stateCodes[to], keepsLane: 0 });
  }
}

function seqsOf(ends: readonly End[]): number[] {
  return ends.map(({ lease }) => lease.seq);
}

function tellEnd(step: Step, { lease, next, attempts }: End): void {
  const { id, route, state, rev, attempt } = lease;
  const ended = stateCodes[next.to];
  assertArrow(state, ended);
  count(step, route, state, -1);
  if (next.keepMs !== 0) count(step, route, ended, 1);
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
function moveAlike({ statements, now }: Step, ends: readonly End[], from: number): number {
  const { next: like } = ends[from] as End;
  const values: SqlValue[] = [];
  for (const { lease, next, attempts } of ends.slice(from)) {
    if (!areAlike(next, like)) break;
    values.push(lease.seq, next.result, attempts);
  }
  const named = { state: stateCodes[like.to], now, keepUntil: keepUntilOf(like, now), reason: like.reason };
  runRowSets(statements, moveRows, { values, width }, () => named);
  return values.length / width;
}
