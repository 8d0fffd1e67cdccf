/**
 * Settle: what a running attempt writes at its end, under its fence. Applied at most once, and only with the current
 * fence; a repeat with the same fence answers `already`.
 *
 * Plain settles (store/plain.ts) are collected and written as sets (settle-plain.ts). The rest takes the general
 * road, one by one; with effects it is all or nothing and runs in a savepoint, so that one refused effect harms no
 * other settle of the call.
 */
import type { JobRow } from "../../store/job-fields.ts";
import type { Settle, SettleAnswer } from "../../store/operations.ts";
import { isPlainSettle } from "../../store/plain.ts";
import type { Effects } from "../../store/records.ts";
import { settle as settleRow } from "../../store/rules/change.ts";
import { isLeased, settleRefusal } from "../../store/rules/guard.ts";
import { hasLanes } from "./routes.ts";
import { readLive, readLiveStates, readNamed } from "./rows.ts";
import { finishJobs, readLeases } from "./settle-plain.ts";
import type { End, Lease } from "./settle-plain.ts";
import type { Step } from "./step.ts";
import { allOrNothing, submitUnit } from "./submit.ts";
import { writeOutcome } from "./write-outcome.ts";

const ok: SettleAnswer = { kind: "ok" };

export function settleIfLeased(step: Step, settles: readonly Settle[]): SettleAnswer[] {
  const jobs = readSettled(step, settles);
  let ends: End[] = [];
  const flush = (): void => {
    finishJobs(step, ends);
    ends = [];
  };
  const answers = settles.map((settle): SettleAnswer => {
    const job = jobs.get(settle.seq);
    // Whoever names the job again finds it as this settle leaves it.
    jobs.delete(settle.seq);
    const isPlain = isPlainSettle(settle);
    if (isPlain && job !== undefined && isLeased(job, settle)) {
      ends.push({ lease: job, next: settle.next, attempts: settle.attempts });
      return ok;
    }
    flush();
    return settleGeneral(step, settle, isPlain ? undefined : (job as JobRow | undefined));
  });
  flush();
  return answers;
}

/** The live jobs of these settles by seq: whole ones, but only the leases of those that end plainly. */
function readSettled(step: Step, settles: readonly Settle[]): Map<number, Lease> {
  const { statements } = step;
  const [ends, others]: [number[], number[]] = [[], []];
  for (const settle of settles) (isPlainSettle(settle) ? ends : others).push(settle.seq);
  const jobs = new Map<number, Lease>();
  for (const lease of readLeases(statements, ends)) jobs.set(lease.seq, lease);
  // A lane is part of the spec, which is read for those that have one.
  for (const row of readLiveStates(statements, others))
    jobs.set(row.seq, hasLanes(step, row.route) ? (readLive(statements, row.seq) ?? row) : row);
  return jobs;
}

/** `known` is the live job with this seq, where it was read and is unchanged since. */
export function settleGeneral(step: Step, settle: Settle, known?: JobRow): SettleAnswer {
  const row = known?.id === settle.id ? known : readNamed(step.statements, settle);
  if (typeof row === "string") return { kind: row };
  const refusal = settleRefusal(row, settle);
  if (refusal !== null) return { kind: refusal };
  const apply = (): void => writeOutcome(step, row, settleRow(row, settle, step.now));
  const { effects } = settle;
  if (effects === undefined) {
    apply();
    return ok;
  }
  const withEffects = (): SettleAnswer => {
    apply();
    return applyEffects(step, effects);
  };
  return allOrNothing(step, withEffects);
}

function applyEffects(step: Step, { jobs = [], docs = [] }: Effects): SettleAnswer {
  const answer = submitUnit(step, { jobs, docs });
  if (answer.kind === "ok") return ok;
  return { kind: answer.reason === "doc-changed" ? "doc-changed" : "id-differs", id: answer.id };
}
