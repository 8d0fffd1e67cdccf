/**
 * Rule R4 on rows (store/rules/arrive.ts): the ends of members go along their edges, behind everything else of their unit;
 * flows and their nodes grow; what is left to a duty becomes a due document.
 *
 * Many ends of one call arrive at one flow or join. What they count is kept in the step and written once (`flushTargets`):
 * at the end of the call, and before anybody reads these rows.
 */
import { readEdge } from "../../model/flow/edge.ts";
import type { JobRow } from "../../store/job-fields.ts";
import { storeLimits } from "../../store/limits.ts";
import type { Growth } from "../../store/records.ts";
import type { Outcome } from "../../store/rules/advance.ts";
import { arrive, depart, free, grow, link, owedPut, passOn } from "../../store/rules/arrive.ts";
import { isFinished } from "../../store/rules/change.ts";
import { aftermathOf, hasPassedOn, isMember } from "../../store/rules/member.ts";
import { columnList, fromJob, rowReader } from "./columns.ts";
import { putDoc } from "./docs.ts";
import { readKept, readLive, seqOfId } from "./rows.ts";
import type { Step, Target } from "./step.ts";
import { updateRow, writeOutcome } from "./write-outcome.ts";

export function readById(step: Step, id: string): JobRow | null {
  const { statements, commit } = step;
  commit.insert.flush();
  flushTargets(step);
  const seq = seqOfId(statements, id);
  return seq === null ? null : readKept(statements, seq);
}

/** Writes what a rule made of one job, and what follows of it for its flow. Its end is passed on by `passOnEnds`. */
export function writeChange(step: Step, from: JobRow, outcome: Outcome): void {
  if (from.waits === null) {
    writeOutcome(step, from, outcome);
    return;
  }
  flushTargets(step);
  const { ends, comesBack, owes } = aftermathOf(from, outcome);
  const passing = ends ? passOn(outcome.row, storeLimits.edgesAtOnceMax) : null;
  const row = passing === null ? outcome.row : { ...outcome.row, waits: passing.waits };
  writeOutcome(step, from, { ...outcome, row });
  if (passing !== null) step.ended.push({ id: row.id, state: row.state, passing });
  if (comesBack) comeBack(step, from);
  if (owes) owe(step, from.id);
}

export function owe(step: Step, id: string): void {
  putDoc(step, owedPut(id));
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
  for (const { id, state, passing } of step.ended.splice(0)) {
    for (const edge of passing.edges) arriveAt(step, edge, state);
    if (passing.owes) owe(step, id);
  }
}

/** The end of a member that is finished goes along more of its edges. */
export function passOnSome(step: Step, member: JobRow, max: number): void {
  const passing = passOn(member, max);
  updateRow(step.statements, member, { ...member, waits: passing.waits });
  step.ended.push({ id: member.id, state: member.state, passing });
  passOnEnds(step);
}

const targetNames = ["seq", "state", "waits", "freed"] as const;
const readTarget = rowReader(targetNames);
/** Input: id. Answer: what an arrival has to know of a live job, or of a finished one. */
const targetIn = (table: string): string =>
  `SELECT ${columnList(targetNames, fromJob)} FROM millrace_spec s JOIN ${table} j ON j.seq = s.seq WHERE s.id = ?`;
const liveTarget = targetIn("millrace_job");
const finishedTarget = targetIn("millrace_history");

function targetOf({ statements, targets }: Step, id: string): Target | null {
  const known = targets.get(id);
  if (known !== undefined) return known;
  const values = statements(liveTarget).get(id) ?? statements(finishedTarget).get(id);
  const row = values === undefined ? null : readTarget(values);
  const target = row === null ? null : { ...row, written: row.waits };
  targets.set(id, target);
  return target;
}

function arriveAt(
  step: Step,
  edge: Parameters<typeof arrive>[1] & { readonly id: string },
  ended: number,
): void {
  const target = targetOf(step, edge.id);
  const arrival = target === null ? null : arrive(target, edge, ended);
  if (target === null || arrival === null) return;
  target.waits = arrival.waits;
  if (arrival.isFreed && target.freed !== null) freeTarget(step, target);
  if (arrival.owes) owe(step, edge.id);
}

function freeTarget(step: Step, target: Target): void {
  const row = readLive(step.statements, target.seq) as JobRow;
  const outcome = free({ ...row, waits: target.waits }, step.now) as Outcome;
  writeOutcome(step, row, outcome);
  target.state = outcome.row.state;
  target.written = target.waits;
}

/** Inputs: waits, seq. */
const countLive = "UPDATE millrace_job SET waits = ? WHERE seq = ?";
const countFinished = "UPDATE millrace_history SET waits = ? WHERE seq = ?";

/** Writes what has arrived. */
export function flushTargets({ statements, targets }: Step): void {
  if (targets.size === 0) return;
  for (const target of targets.values())
    if (target !== null && target.waits !== target.written)
      statements(isFinished(target) ? countFinished : countLive).run(target.waits, target.seq);
  targets.clear();
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
