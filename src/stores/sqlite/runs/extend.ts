/**
 * Extend: a running attempt renews its lease under its fence and reports its start. For a durable run the answer says
 * whether its journal holds more than the worker knows.
 */
import { leasedFields } from "../../../store/job-fields.ts";
import type { JobRow } from "../../../store/job-fields.ts";
import type { Extend, ExtendAnswer, ExtendRequest } from "../../../store/operations.ts";
import type { LeasedJob, LeaseRef } from "../../../store/records.ts";
import { isLeased } from "../../../store/rules/guard.ts";
import { extend } from "../../../store/rules/lease.ts";
import { emit } from "../../../store/rules/emit.ts";
import { setClock, emitEvent } from "../../../store/rules/call-events.ts";
import { columnList, fromJob, rowReader } from "../connection/columns.ts";
import type { Statements } from "../connection/connection.ts";
import { lastsOf } from "../journals/entries.ts";
import { readLiveStates, seqOfId } from "../jobs/job-rows.ts";
import { isRunning } from "../connection/schema.ts";
import type { Step } from "../connection/transaction.ts";
import { updateLive } from "../jobs/write-outcome.ts";
import { sql } from "../../../store/sql.ts";

export function extendIfLeased(step: Step, request: ExtendRequest): ExtendAnswer {
  const { statements, now } = step;
  const leases = openLeases(statements, request.leases);
  const answers = request.leases.map((given) => {
    const row = leases.find(given);
    if (typeof row === "string") return row;
    const extended = extend(row, given, request.leaseMs, now);
    leases.write(row, extended);
    if (row.startedAt === null && extended.startedAt !== null)
      emitEvent(step, emit({ row: extended, event: "started" }));
    if (extended.attemptEndsAt !== row.attemptEndsAt) setClock(step, extended.attemptEndsAt);
    return row.cancelAsked === 1 ? "cancel-asked" : "ok";
  });
  const others = request.wantsOthers ? readOthers(statements, request) : [];
  const grown = grownOf(
    statements,
    request.leases.filter((_, at) => answers[at] === "ok" || answers[at] === "cancel-asked"),
  );
  return { answers, others, now, ...(grown.length === 0 ? {} : { grown }) };
}

/** The ids of those whose journal holds more than was seen. */
function grownOf(statements: Statements, leases: readonly Extend[]): string[] {
  const watched = leases.filter(({ seen }) => seen !== undefined);
  const lasts = lastsOf(
    statements,
    watched.map(({ seq }) => seq),
  );
  return watched.flatMap(({ id, seq, seen = 0 }) => ((lasts.get(seq) ?? 0) > seen ? [id] : []));
}

/** The jobs with these leases. */
export function openLeases(statements: Statements, refs: readonly LeaseRef[]) {
  const seqs = refs.map(({ seq }) => seq);
  const rows = new Map(readLiveStates(statements, seqs).map((row) => [row.seq, row]));
  return {
    /** The job while this lease is the current one, else why not. */
    find(ref: LeaseRef): JobRow | "stale" | "gone" {
      const row = rows.get(ref.seq);
      if (row !== undefined && isLeased(row, ref)) return row;
      return seqOfId(statements, ref.id) === null ? "gone" : "stale";
    },
    write(from: JobRow, row: JobRow): void {
      updateLive(statements, from, row);
      rows.set(row.seq, row);
    },
    /** What was written since is rolled back. */
    restore(row: JobRow): void {
      rows.set(row.seq, row);
    },
  };
}

/** Input: owner. Answer: what it runs, by seq. */
const readOwned = sql`SELECT ${columnList(["seq", "id", "fence"])} FROM millrace_job INDEXED BY millrace_job_running
  WHERE ${isRunning} AND owner = ? ORDER BY seq`;
const readRef = rowReader(["seq", "id", "fence"]);
/** Input: seq. Answer: the lease as a claim hands it out. */
const readHandedOut = sql`SELECT ${columnList(leasedFields, fromJob)}
  FROM millrace_job j JOIN millrace_spec s ON s.seq = j.seq WHERE j.seq = ?`;
const readLeased = rowReader(leasedFields);

function readOthers(statements: Statements, { owner, leases }: ExtendRequest): LeasedJob[] {
  const named = new Set(leases.map(({ id, fence }) => `${fence}:${id}`));
  const owned = statements(readOwned).all(owner).map(readRef);
  const others = owned.filter(({ id, fence }) => !named.has(`${fence}:${id}`));
  return others.map(({ seq }) => readLeased(statements(readHandedOut).get(seq)) as LeasedJob);
}
