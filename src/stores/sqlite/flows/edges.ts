/**
 * Rule R4 on rows (store/rules/flow/arrive.ts): the ends of members go along their edges, behind everything else of
 * their unit, and arrive at others (targets.ts); flows and their nodes grow; what is left to a duty becomes a due
 * document.
 */
import { readEdge } from "../../../model/flow/edge.ts";
import type { JobRow } from "../../../store/job-fields.ts";
import { storeLimits } from "../../../store/contract-limits.ts";
import type { Growth } from "../../../store/records.ts";
import type { Outcome } from "../../../store/rules/advance.ts";
import { depart, grow, link, passOn } from "../../../store/rules/flow/arrive.ts";
import { isFinished } from "../../../store/rules/change.ts";
import { aftermathOf, hasPassedOn, isMember } from "../../../store/rules/flow/member.ts";
import { readKept, seqOfId } from "../jobs/job-rows.ts";
import type { Step } from "../connection/transaction.ts";
import { arriveAt, flushTargets, loadTargets, deferWork } from "./targets.ts";
import { updateRow, writeOutcome } from "../jobs/write-outcome.ts";

export function readById(step: Step, id: string): JobRow | null {
  const { statements, commit } = step;
  commit.insert.flush();
  flushTargets(step);
  const seq = seqOfId(statements, id);
  return seq === null ? null : readKept(statements, seq);
}

/**
 * Writes what a rule made of one job, and what follows of it for its flow or its children. Its end is passed on by
 * `passOnEnds`.
 */
export function writeChange(step: Step, from: JobRow, outcome: Outcome): void {
  if (from.waits === null) {
    writeOutcome(step, from, outcome);
    if (outcome.defers === true) deferWork(step, from.id);
    return;
  }
  flushTargets(step);
  const { ends, comesBack, defers } = aftermathOf(from, outcome);
  const passing = ends ? passOn(outcome.row, storeLimits.edgesAtOnceMax) : null;
  const row = passing === null ? outcome.row : { ...outcome.row, waits: passing.waits };
  writeOutcome(step, from, { ...outcome, row });
  if (passing !== null) step.ended.push({ id: row.id, state: row.state, passing });
  if (comesBack) comeBack(step, from);
  if (defers) deferWork(step, from.id);
}

function comeBack(step: Step, member: JobRow): void {
  const flow = readById(step, member.flow as string);
  if (flow === null) return;
  updateRow(step.statements, flow, depart(flow, readEdge(member.edges?.[0] as string), member.state));
}

/** The members that have ended in this unit, in order. */
export function passOnEnds(step: Step): void {
  if (step.ended.length === 0) return;
  step.commit.insert.flush();
  const ended = step.ended.splice(0);
  const ways = new Set(ended.map(({ passing }) => passing.edges));
  loadTargets(
    step,
    [...ways].flatMap((edges) => edges.map(({ id }) => id)),
  );
  for (const { id, state, passing } of ended) {
    for (const edge of passing.edges) arriveAt(step, edge, state);
    if (passing.defers) deferWork(step, id);
  }
}

/** The end of a member that is finished goes along more of its edges. */
export function passOnSome(step: Step, member: JobRow, max: number): void {
  const passing = passOn(member, max);
  updateRow(step.statements, member, { ...member, waits: passing.waits });
  step.ended.push({ id: member.id, state: member.state, passing });
  passOnEnds(step);
}

/** Answers the id of what cannot grow; null where all of it has. */
export function growFlow(step: Step, { grows = [], links = [] }: Growth): string | null {
  for (const by of grows) {
    const row = readById(step, by.id);
    const grown = row === null ? null : grow(row, by);
    if (row === null || grown === null) return by.id;
    updateRow(step.statements, row, grown);
  }
  for (const { from, edge } of links) {
    const row = readById(step, from);
    if (row === null || !isMember(row)) return from;
    const linked = link(row, edge);
    updateRow(step.statements, row, linked);
    if (isFinished(row) && hasPassedOn(row)) passOnSome(step, linked, 1);
  }
  return null;
}
