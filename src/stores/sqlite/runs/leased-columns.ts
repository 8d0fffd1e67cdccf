/**
 * A ready job as it will stand once it is leased: what a claim hands out of it, read before it is written. Claims by
 * jobs and claims by lanes read the same columns.
 */
import { leasedFields } from "../../../store/job-fields.ts";
import { fencesPerEpoch } from "../../../store/rules/lease.ts";
import { columnList, fieldReader, fromJob, placesOf } from "../connection/columns.ts";
import type { Formulas, Picked } from "../connection/columns.ts";
import type { Step } from "../connection/transaction.ts";
import { sql } from "../../../store/sql.ts";

/** `lease` of store/rules/lease.ts, of a job that holds no key until its start. */
export const handedOut: Formulas = {
  fence: "max(fence, @lowestFence) + 1",
  attempt: "attempt + counts_attempt",
  rev: "rev + 1",
  claimedAt: "@now",
};

/** An input of more bytes is not read with the others. */
const smallInputBytes = 16 * 2 ** 10;
/** All but the time of the claim, which is the caller's own. */
type ReadName = Exclude<(typeof leasedFields)[number], "claimedAt">;
const isRead = (name: (typeof leasedFields)[number]): name is ReadName => name !== "claimedAt";
const readNames = [...leasedFields.filter(isRead), "holds"] as const;
const input = `CASE WHEN octet_length(input) <= ${smallInputBytes} THEN input END`;
export const columns = columnList(readNames, { ...fromJob, route: "j.route", ...handedOut, input });
const at = placesOf(readNames);
export const readHolds = fieldReader(readNames, "holds");
export const readSeq = fieldReader(readNames, "seq");
export const readRouteOf = fieldReader(readNames, "route");
/** How many columns these are. */
export const leasedWidth = readNames.length;

/** @param now when it is claimed. */
export function readLeased(values: unknown, now: number): Picked<(typeof leasedFields)[number]> {
  const row = values as readonly never[];
  return {
    id: row[at.id] as never,
    seq: row[at.seq] as never,
    fence: row[at.fence] as never,
    route: row[at.route] as never,
    rev: row[at.rev] as never,
    attempt: row[at.attempt] as never,
    input: row[at.input] as never,
    policy: row[at.policy] as never,
    meta: row[at.meta] as never,
    attempts: row[at.attempts] as never,
    createdAt: row[at.createdAt] as never,
    dueAt: row[at.dueAt] as never,
    claimedAt: now,
    deadlineAt: row[at.deadlineAt] as never,
    durable: row[at.durable] as never,
  };
}

/** Inputs: lowest fence, a JSON list of seqs. Answer: these jobs, in any order. */
export const readListed = sql`SELECT ${columns} FROM millrace_job j LEFT JOIN millrace_spec s ON s.seq = j.seq
  WHERE j.seq IN (SELECT value FROM json_each(@seqs))`;

/** These jobs as they will stand once leased, by seq. */
export function readLeasedRows(step: Step, seqs: readonly number[]): Map<number, unknown> {
  if (seqs.length === 0) return new Map();
  const named = { lowestFence: lowestFenceOf(step), seqs: JSON.stringify(seqs) };
  const rows = step.statements(readListed).all(named);
  return new Map(rows.map((row) => [readSeq(row), row]));
}

export const lowestFenceOf = ({ commit }: Pick<Step, "commit">): number => commit.epoch * fencesPerEpoch;
