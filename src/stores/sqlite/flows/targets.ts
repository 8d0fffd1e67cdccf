/**
 * Where ends arrive (rule R4, store/rules/flow/arrive.ts). Many ends of one call arrive at one flow or join, and free
 * many nodes that go to the same place. So targets are read as a set, what they count is kept in the step, and all of
 * it is written at once (`flushTargets`): at the end of the call, and before anybody reads these rows.
 */
import type { Edge } from "../../../model/flow/edge.ts";
import { readWaits, writeWaits } from "../../../model/flow/flow-waits.ts";
import type { Waits } from "../../../model/flow/flow-waits.ts";
import type { JobRow } from "../../../store/job-fields.ts";
import type { Outcome } from "../../../store/rules/advance.ts";
import { arrive, free, deferredPut } from "../../../store/rules/flow/arrive.ts";
import { isFinished } from "../../../store/rules/change.ts";
import { emitOutcome } from "../../../store/rules/call-events.ts";
import { columnList, fromJob, rowReader, setList } from "../connection/columns.ts";
import type { Formulas } from "../connection/columns.ts";
import { openRowSets, readRowSets } from "../connection/connection.ts";
import type { RowSet } from "../connection/connection.ts";
import { putDoc } from "../documents/documents.ts";
import { hasLanes } from "../jobs/routes.ts";
import { readLive } from "../jobs/job-rows.ts";
import { runOnSeqs } from "../connection/seq-list.ts";
import type { Step } from "../connection/transaction.ts";
import { writeOutcome } from "../jobs/write-outcome.ts";
import { sql } from "../../../store/sql.ts";

/** What an arrival has to know of a job, and what is emitted about one that it frees. */
const targetNames = [
  ...(["seq", "id", "state", "waits", "freed", "route", "rev", "attempt"] as const),
  ...(["dueAt", "deadlineAt", "ttlAt", "timerAt"] as const),
] as const;
const readTarget = rowReader(targetNames);

export interface Target extends Pick<JobRow, "state"> {
  /** As the store has it. */
  readonly row: ReturnType<typeof readTarget>;
  written: Waits | null;
  /** With all that has arrived. */
  waits: Waits | null;
  /** As it stands once freed, where that is not written yet. */
  placed: JobRow | null;
}

/** Inputs: ids. */
function openTargets(table: string, formulas: Formulas = {}): readonly RowSet[] {
  const columns = columnList(targetNames, { ...fromJob, ...formulas });
  const joined = `millrace_spec s ON s.id = e.id CROSS JOIN ${table} j ON j.seq = s.seq`;
  return openRowSets(
    "id",
    (set) => `WITH ${set} SELECT ${columns} FROM e CROSS JOIN ${joined}`,
    `SELECT ${columns} FROM (SELECT ? AS id) e CROSS JOIN ${joined}`,
  );
}

const liveTargets = openTargets("millrace_job");
const finishedTargets = openTargets("millrace_history", { timerAt: "NULL" });

/** Reads what is not known yet of the jobs with these ids, live or finished; null for one that is not there. */
export function loadTargets({ statements, targets }: Step, ids: readonly string[]): void {
  const unknown = [...new Set(ids)].filter((id) => !targets.has(id));
  // The targets of a wide node are mostly alike.
  let last: { readonly text: string | null; readonly waits: Waits | null } = { text: null, waits: null };
  const load = (sets: readonly RowSet[], wanted: readonly string[]): void => {
    for (const values of readRowSets(statements, sets, wanted)) {
      const row = readTarget(values);
      if (row.waits !== last.text)
        last = { text: row.waits, waits: row.waits === null ? null : readWaits(row.waits) };
      const { waits } = last;
      targets.set(row.id, { row, state: row.state, written: waits, waits, placed: null });
    }
  };
  load(liveTargets, unknown);
  load(
    finishedTargets,
    unknown.filter((id) => !targets.has(id)),
  );
  for (const id of unknown) if (!targets.has(id)) targets.set(id, null);
}

/** Guard: the target was loaded. */
export function arriveAt(step: Step, edge: Edge & { readonly id: string }, ended: number): void {
  const target = step.targets.get(edge.id) ?? null;
  const arrival = target === null ? null : arrive(target, edge, ended);
  if (target === null || arrival === null) return;
  target.waits = arrival.waits;
  if (arrival.isFreed && target.row.freed !== null) freeTarget(step, target, arrival.waits);
  if (arrival.defers) deferWork(step, edge.id);
}

export function deferWork(step: Step, id: string): void {
  putDoc(step, deferredPut(id));
}

function freeTarget(step: Step, target: Target, waits: Waits): void {
  const { row } = target;
  if (hasLanes(step, row.route)) {
    // Its lane has to know of it.
    const whole = readLive(step.statements, row.seq) as JobRow;
    const outcome = free({ ...whole, waits: writeWaits(waits) }, step.now) as Outcome;
    writeOutcome(step, whole, outcome);
    target.state = outcome.row.state;
    target.written = waits;
    return;
  }
  const outcome = free(row as JobRow, step.now) as Outcome;
  emitOutcome(step, row as JobRow, outcome);
  target.state = outcome.row.state;
  target.placed = outcome.row;
}

/** Inputs: waits, seq. */
const countLive = "UPDATE millrace_job SET waits = ? WHERE seq = ?";
const countFinished = "UPDATE millrace_history SET waits = ? WHERE seq = ?";
/** Inputs: where they go, by name; then the seqs. Guard: read as blocked in the same transaction. */
const placeFreed = sql`UPDATE millrace_job SET ${setList({
  ...{ state: "@state", rev: "rev + 1", rank: "@rank", dueAt: "@dueAt", ttlAt: "@ttlAt" },
  ...{ timerAt: "@timerAt", waits: "@waits" },
})}`;

/** Writes what has arrived. */
export function flushTargets({ statements, targets }: Step): void {
  if (targets.size === 0) return;
  /** By the place that they go to, mostly one for all. */
  const freed = new Map<string, { readonly to: JobRow & { waits: string }; readonly seqs: number[] }>();
  for (const target of targets.values()) {
    if (target === null || target.waits === null || target.waits === target.written) continue;
    const { row, placed } = target;
    const waits = writeWaits(target.waits);
    if (placed === null) {
      statements(isFinished(row) ? countFinished : countLive).run(waits, row.seq);
      continue;
    }
    const { state, rank, dueAt, ttlAt, timerAt } = placed;
    const place = `${state} ${rank} ${dueAt} ${ttlAt} ${timerAt} ${waits}`;
    const known = freed.get(place);
    if (known === undefined) freed.set(place, { to: { ...placed, waits }, seqs: [row.seq] });
    else known.seqs.push(row.seq);
  }
  for (const { to, seqs } of freed.values()) {
    const { state, rank, dueAt, ttlAt, timerAt, waits } = to;
    runOnSeqs(statements, placeFreed, seqs, { state, rank, dueAt, ttlAt, timerAt, waits });
  }
  targets.clear();
}
