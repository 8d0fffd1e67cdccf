/**
 * Slips: results of steps that are committed together with the caller's own rows. The caller's transaction holds the
 * write lock of the file until its end, so a lease that is current here is current at the commit.
 */
import type { SlipAnswer } from "../../../store/operations.ts";
import type { LeaseRef, Slip } from "../../../store/records.ts";
import { isLeased } from "../../../store/rules/guard.ts";
import { readValue } from "../connection/connection.ts";
import type { Statements } from "../connection/connection.ts";
import { readLiveStates } from "../jobs/job-rows.ts";
import type { Step } from "../connection/transaction.ts";

/** Inputs: seq, key. */
const findSlip = "SELECT body FROM millrace_slip WHERE seq = ? AND key = ?";
/** Inputs: seq, key, body. */
const addSlip = "INSERT INTO millrace_slip (seq, key, body) VALUES (?, ?, ?)";

export function commitSlip({ statements }: Step, lease: LeaseRef, { key, body }: Slip): SlipAnswer {
  const recorded = readValue<string>(statements, findSlip, lease.seq, key);
  if (recorded !== null) return { kind: "recorded", body: recorded };
  const [row] = readLiveStates(statements, [lease.seq]);
  if (row === undefined || !isLeased(row, lease)) return { kind: "stale" };
  statements(addSlip).run(lease.seq, key, body);
  return { kind: "ok" };
}

/** Input: seq. */
const readAll = "SELECT key, body FROM millrace_slip WHERE seq = ? ORDER BY key";

export function readSlips(statements: Statements, seq: number): Slip[] {
  return (statements(readAll).all(seq) as [key: string, body: string][]).map(([key, body]) => ({
    key,
    body,
  }));
}
