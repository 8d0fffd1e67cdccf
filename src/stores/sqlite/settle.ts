/**
 * Settle: what a running attempt writes at its end, under its fence. Applied at most once, and only with the current fence; a repeat with
 * the same fence answers `already`.
 *
 * Plain settles (store/plain.ts) are collected and written as sets (settle-plain.ts). The rest takes the general road, one by one; with effects
 * it is all or nothing and runs in a savepoint, so that one refused effect harms no other settle of the call.
 */
import type { Settle, SettleAnswer } from "../../store/operations.ts";
import type { Effects } from "../../store/records.ts";
import { settle as settleRow } from "../../store/rules/change.ts";
import { settleRefusal } from "../../store/rules/guard.ts";
import { readNamed } from "./rows.ts";
import { openPlainSettle } from "./settle-plain.ts";
import type { Step } from "./step.ts";
import { allOrNothing, submitUnit } from "./submit.ts";
import { openPlainSubmit } from "./submit-plain.ts";
import { writeOutcome } from "./write-outcome.ts";

const ok: SettleAnswer = { kind: "ok" };

export function settleIfLeased(step: Step, settles: readonly Settle[]): SettleAnswer[] {
  const plain = openPlainSettle(step, settles);
  const answers = settles.map((settle): SettleAnswer => {
    if (plain.add(settle)) return ok;
    plain.flush();
    return settleGeneral(step, settle);
  });
  plain.flush();
  return answers;
}

export function settleGeneral(step: Step, settle: Settle): SettleAnswer {
  const row = readNamed(step.statements, settle);
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
  return allOrNothing(step, withEffects, () => {});
}

function applyEffects(step: Step, { jobs = [], docs = [] }: Effects): SettleAnswer {
  const plain = openPlainSubmit(step);
  const answer = submitUnit(step, plain, { jobs, docs });
  plain.flush();
  if (answer.kind === "ok") return ok;
  return { kind: answer.reason === "doc-changed" ? "doc-changed" : "id-differs", id: answer.id };
}
