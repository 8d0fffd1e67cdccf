/** What a running attempt writes while it runs, always under its fence: a longer lease, the report of its start, progress and logs. */
import { leasedFields } from "../../store/job-fields.ts";
import type { JobFieldName } from "../../store/job-fields.ts";
import type { ExtendAnswer, ExtendRequest, LeasedWrite, RecordAnswer } from "../../store/operations.ts";
import type { LeasedJob, LeaseRef } from "../../store/records.ts";
import { fitLines } from "../../store/rules/fit-lines.ts";
import { isLeased } from "../../store/rules/guard.ts";
import { extend } from "../../store/rules/lease.ts";
import { columnList, fromJob, rowReader, sqlValues, updateSql } from "./columns.ts";
import type { Picked } from "./columns.ts";
import type { Statements } from "./connection.ts";
import { seqOfId } from "./rows.ts";
import { isRunning } from "./schema.ts";
import { setClock } from "./step.ts";
import type { Step } from "./step.ts";

const changedNames = [
  "leaseEndsAt",
  "startedAt",
  "attemptEndsAt",
  "timerAt",
] as const satisfies JobFieldName[];
const leaseNames = [
  ...(["seq", "id", "state", "fence", "cancelAsked", "dueAt", "deadlineAt", "ttlAt"] as const),
  ...changedNames,
] as const satisfies JobFieldName[];
type Lease = Picked<(typeof leaseNames)[number]>;

/** Input: seq. Answer: what the guard and the clocks of a live job need. */
const readOne = `SELECT ${columnList(leaseNames)} FROM millrace_job WHERE seq = ?`;
const readLease = rowReader(leaseNames);
/** Inputs: the changed fields, seq. Guard: leased, read in the same transaction. */
const renew = updateSql("millrace_job", changedNames);

export function extendIfLeased(step: Step, request: ExtendRequest): ExtendAnswer {
  const { statements, now } = step;
  const answers = request.leases.map((given) => {
    const lease = findLease(statements, given);
    if (typeof lease === "string") return lease;
    const extended = extend(lease, given, request.leaseMs, now);
    statements(renew).run(...sqlValues(changedNames, extended), lease.seq);
    if (extended.attemptEndsAt !== lease.attemptEndsAt) setClock(step, extended.attemptEndsAt);
    return lease.cancelAsked === 1 ? "cancel-asked" : "ok";
  });
  const others = request.wantsOthers ? readOthers(statements, request) : [];
  return { answers, others, now };
}

/** The job while this lease is the current one, else why not. */
function findLease(statements: Statements, ref: LeaseRef): Lease | "stale" | "gone" {
  const values = statements(readOne).get(ref.seq);
  const lease = values === undefined ? null : readLease(values);
  if (lease !== null && isLeased(lease, ref)) return lease;
  return seqOfId(statements, ref.id) === null ? "gone" : "stale";
}

/** Input: owner. Answer: what it runs, by seq. */
const readOwned = `SELECT ${columnList(["seq", "id", "fence"])} FROM millrace_job INDEXED BY millrace_job_running
  WHERE ${isRunning} AND owner = ? ORDER BY seq`;
const readRef = rowReader(["seq", "id", "fence"]);
/** Input: seq. Answer: the lease as a claim hands it out. */
const readHandedOut = `SELECT ${columnList(leasedFields, fromJob)} FROM millrace_job j JOIN millrace_spec s ON s.seq = j.seq WHERE j.seq = ?`;
const readLeased = rowReader(leasedFields);

function readOthers(statements: Statements, { owner, leases }: ExtendRequest): LeasedJob[] {
  const named = new Set(leases.map(({ id, fence }) => `${fence}:${id}`));
  const owned = statements(readOwned).all(owner).map(readRef);
  const others = owned.filter(({ id, fence }) => !named.has(`${fence}:${id}`));
  return others.map(({ seq }) => readLeased(statements(readHandedOut).get(seq)) as LeasedJob);
}

/** Inputs: progress, seq. Guard: as above. */
const setProgress = updateSql("millrace_job", ["progress"]);
/** Input: seq. Answer: the number of its last line. */
const lastLine = "SELECT ifnull(max(number), 0) FROM millrace_trail WHERE seq = ?";
/** Inputs: seq, number, time, text. */
const putLine = "INSERT OR REPLACE INTO millrace_trail (seq, number, at, body) VALUES (?, ?, ?, ?)";

export function recordIfLeased(step: Step, writes: readonly LeasedWrite[]): RecordAnswer[] {
  const { statements, now } = step;
  return writes.map((write) => {
    const lease = findLease(statements, write);
    if (typeof lease === "string") return lease;
    const { progress, logs = [], overflow } = write;
    const { seq } = lease;
    if (progress !== undefined) statements(setProgress).run(progress, seq);
    if (logs.length > 0) {
      const [last] = statements(lastLine).get(seq) as [number: number];
      for (const { number, body } of fitLines(last, logs, overflow))
        statements(putLine).run(seq, number, now, body);
    }
    return "ok";
  });
}
