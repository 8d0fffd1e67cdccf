/**
 * What a running attempt writes while it runs, always under its fence: a longer lease, the report of its start,
 * progress and logs.
 */
import { leasedFields } from "../../../store/job-fields.ts";
import type { JobRow } from "../../../store/job-fields.ts";
import type { ExtendAnswer, ExtendRequest, LeasedWrite, RecordAnswer } from "../../../store/operations.ts";
import type { LeasedJob, LeaseRef } from "../../../store/records.ts";
import { fitLines } from "../../../store/rules/fit-lines.ts";
import { isLeased } from "../../../store/rules/guard.ts";
import { extend } from "../../../store/rules/lease.ts";
import { emit } from "../../../store/rules/emit.ts";
import { setClock, emitEvent } from "../../../store/rules/call-events.ts";
import { columnList, fromJob, rowReader } from "../connection/columns.ts";
import { readValue } from "../connection/connection.ts";
import type { Statements } from "../connection/connection.ts";
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
  return { answers, others, now };
}

/** The jobs with these leases. */
function openLeases(statements: Statements, refs: readonly LeaseRef[]) {
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

/** Input: seq. Answer: the number of its last line; null without one. */
const lastLine = "SELECT max(number) FROM millrace_journal WHERE seq = ?";
/** Inputs: seq, number, time, text. */
const putLine = "INSERT OR REPLACE INTO millrace_journal (seq, number, at, body) VALUES (?, ?, ?, ?)";

export function recordIfLeased(step: Step, writes: readonly LeasedWrite[]): RecordAnswer[] {
  const { statements, now } = step;
  const leases = openLeases(statements, writes);
  return writes.map((write) => {
    const row = leases.find(write);
    if (typeof row === "string") return row;
    const { progress, logs = [], overflow } = write;
    const { seq } = row;
    if (progress !== undefined) {
      const reported = { ...row, progress };
      leases.write(row, reported);
      emitEvent(step, emit({ row: reported, event: "progress" }));
    }
    if (logs.length > 0) {
      const last = readValue<number>(statements, lastLine, seq) ?? 0;
      for (const { number, body } of fitLines(last, logs, overflow))
        statements(putLine).run(seq, number, now, body);
    }
    return "ok";
  });
}
