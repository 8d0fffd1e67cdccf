/**
 * Settle: what a running attempt writes at its end, under its fence. Applied at most once, and only with the current
 * fence; a repeat with the same fence answers `already`.
 *
 * Plain settles (paths.ts) are collected and written as sets (settle-sets.ts). The rest goes the general path, one by
 * one. A settle with effects is all or nothing and runs in a savepoint, so that one refused effect harms no other
 * settle of the call.
 */
import assert from "node:assert/strict";
import type { Finish } from "../../../model/job/change.ts";
import type { JobRow } from "../../../store/job-fields.ts";
import { choosePath } from "../../../store/paths.ts";
import type { Settle, SettleAnswer } from "../../../store/operations.ts";
import type { Effects } from "../../../store/records.ts";
import { settle as settleRow } from "../../../store/rules/change.ts";
import { isLeased, settleRefusal } from "../../../store/rules/guard.ts";
import { withEntries } from "../../../store/rules/journal.ts";
import { passOnEnds, writeChange } from "../flows/edges.ts";
import { appendOwn, lastOf } from "../journals/entries.ts";
import { beginRound, isNewRound } from "../journals/rounds.ts";
import { sqlitePaths } from "../paths.ts";
import { hasLanes } from "../jobs/routes.ts";
import { readEdges, readLive, readLiveStates, readNamed } from "../jobs/job-rows.ts";
import type { Member } from "../jobs/job-rows.ts";
import { finishJobs, readLeases } from "./settle-sets.ts";
import type { End, Lease } from "./settle-sets.ts";
import type { Step } from "../connection/transaction.ts";
import { flushTargets } from "../flows/targets.ts";
import { allOrNothing, submitUnit } from "../jobs/submit.ts";

const ok: SettleAnswer = { kind: "ok" };

export function settleIfLeased(step: Step, settles: readonly Settle[]): SettleAnswer[] {
  const jobs = readSettled(step, settles);
  const members = readMembers(step, jobs.rows);
  let ends: End[] = [];
  const flush = (): void => {
    finishJobs(step, ends);
    passOnEnds(step);
    ends = [];
  };
  const answers = settles.map((settle): SettleAnswer => {
    // A later settle of the call that names the same job gets it as this one leaves it.
    const job = jobs.take(settle.seq);
    const path = choosePath(sqlitePaths.settle, settle, job?.waits ?? null);
    if (path !== "general" && job !== undefined && isLeased(job, settle)) {
      const end: End = { lease: job, next: settle.next as Finish, attempts: settle.attempts };
      const member = path === "set" ? undefined : members.get(job.seq);
      ends.push(member === undefined ? end : { ...end, member });
      return ok;
    }
    flush();
    return settleGeneral(step, settle, path === "general" ? (job as JobRow | undefined) : undefined);
  });
  flush();
  flushTargets(step);
  return answers;
}

const noMembers: ReadonlyMap<number, Member> = new Map();

/** The flow fields of those that are members of flows: the edges along which their ends go. */
function readMembers({ statements }: Step, jobs: readonly Lease[]): ReadonlyMap<number, Member> {
  const members = jobs.filter(({ waits }) => waits !== null);
  if (members.length === 0) return noMembers;
  return readEdges(
    statements,
    members.map(({ seq }) => seq),
  );
}

/** Live jobs by seq. They are mostly taken in the order in which they were read, and then no map is made. */
class LeasesBySeq {
  readonly rows: readonly Lease[];
  #next = 0;
  #left: Map<number, Lease> | null = null;

  constructor(rows: readonly Lease[]) {
    this.rows = rows;
  }

  take(seq: number): Lease | undefined {
    if (this.#left === null) {
      const next = this.rows[this.#next];
      if (next?.seq === seq) {
        this.#next += 1;
        return next;
      }
      this.#left = new Map(this.rows.slice(this.#next).map((row) => [row.seq, row]));
    }
    const found = this.#left.get(seq);
    this.#left.delete(seq);
    return found;
  }
}

/** The live jobs of these settles. Of those that end plainly only the lease is read. */
function readSettled(step: Step, settles: readonly Settle[]): LeasesBySeq {
  const { statements } = step;
  const ends: number[] = [];
  const others: number[] = [];
  for (let place = 0; place < settles.length; place++) {
    const settle = settles[place] as Settle;
    (choosePath(sqlitePaths.settle, settle, null) === "general" ? others : ends).push(settle.seq);
  }
  const rows = readLeases(step, ends);
  // A lane and edges are in the spec, so the spec is read only for jobs that have them.
  for (const row of readLiveStates(statements, others)) {
    const isWhole = hasLanes(step, row.route) || row.waits !== null;
    rows.push(isWhole ? (readLive(statements, row.seq) ?? row) : row);
  }
  // A job may be named twice, to end plainly and otherwise; it is read once.
  const areMixed = ends.length > 0 && others.length > 0;
  return new LeasesBySeq(areMixed ? [...new Map(rows.map((row) => [row.seq, row])).values()] : rows);
}

/** `known`: the live job with this seq, if it was read and has not changed since. */
export function settleGeneral(step: Step, settle: Settle, known?: JobRow): SettleAnswer {
  const row = known?.id === settle.id ? known : readNamed(step.statements, settle);
  if (typeof row === "string") return { kind: row };
  const refusal = settleRefusal(row, settle);
  if (refusal !== null) return { kind: refusal };
  const { journal } = settle;
  const last = journal === undefined ? 0 : lastOf(step.statements, row.seq);
  const unseen = journal === undefined ? null : unseenAnswer(journal, last);
  if (unseen !== null) return unseen;
  const apply = (): void => {
    const noted = appendEntries(step, row, settle, last);
    if (isNewRound(settle.next)) beginRound(step, row.seq);
    writeChange(step, row, settleRow(noted, settle, step.now));
  };
  const { effects } = settle;
  if (effects === undefined) {
    apply();
    passOnEnds(step);
    return ok;
  }
  const withEffects = (): SettleAnswer => {
    apply();
    const refusal = applyEffects(step, effects);
    if (refusal === null) passOnEnds(step);
    return refusal ?? ok;
  };
  return allOrNothing(step, withEffects);
}

/** The refusal of a settle whose worker does not know the whole journal; null if it does. */
function unseenAnswer({ seen }: NonNullable<Settle["journal"]>, last: number): SettleAnswer | null {
  if (seen === null || seen === last) return null;
  return last > seen ? { kind: "arrived", last } : { kind: "stale" };
}

/** The row after the entries of its settle. */
function appendEntries(step: Step, row: JobRow, { journal }: Settle, last: number): JobRow {
  if (journal === undefined) return row;
  const { seq } = row;
  const [appended] = appendOwn(step, [{ seq, puts: journal.entries }], new Map([[seq, last]]));
  return withEntries(row, appended?.entries ?? []);
}

function applyEffects(step: Step, { jobs = [], ...effects }: Effects): SettleAnswer | null {
  const answer = submitUnit(step, { jobs, ...effects });
  if (answer.kind === "ok") return null;
  assert(answer.reason !== "intake-closed", "effects are no intake");
  return { kind: answer.reason, id: answer.id };
}
