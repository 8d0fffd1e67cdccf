/**
 * The general road: writes what a rule made of one job (store/rules), wherever it stood and wherever it stands now, with its key, its tags and
 * what is told of it.
 *
 *  from \ to     live            finished                not kept
 *  new           insert          -                       -
 *  live          update          insert, delete          delete
 *  finished      insert, delete  update                  delete
 */
import type { JobFieldName, JobRow } from "../../store/job-fields.ts";
import type { Outcome } from "../../store/rules/advance.ts";
import { isFinished } from "../../store/rules/change.ts";
import { finishedNames, insertSql, liveNames, specNames, sqlValues, updateSql } from "./columns.ts";
import { addTags, dropTags, forgetJobs } from "./forget.ts";
import { tellOutcome } from "./step.ts";
import type { Step } from "./step.ts";
import { freeKey, takeKey } from "./unique.ts";

interface Table {
  readonly names: readonly JobFieldName[];
  readonly insert: string;
  readonly update: string;
  /** Input: seq. */
  readonly drop: string;
}

function openTable(name: string, names: readonly JobFieldName[]): Table {
  const drop = `DELETE FROM ${name} WHERE seq = ?`;
  return { names, insert: insertSql(name, names), update: updateSql(name, names), drop };
}

const specs = openTable("millrace_spec", specNames);
const live = openTable("millrace_job", liveNames);
const finished = openTable("millrace_history", finishedNames);

const tableOf = (row: JobRow): Table => (isFinished(row) ? finished : live);

/** `from` is the job as it stood; null for a new one. */
export function writeOutcome(step: Step, from: JobRow | null, outcome: Outcome): void {
  const { statements, now } = step;
  const { row, isKept, key } = outcome;
  if (key === "freed") freeKey(statements, row.seq);
  if (from === null) {
    statements(specs.insert).run(...sqlValues(specs.names, row));
    statements(live.insert).run(...sqlValues(live.names, row));
    if (row.tags !== null) addTags(statements, row.seq, row.seq);
  } else if (isKept) {
    writeSpec(step, from, row);
    moveRow(step, from, row);
  } else {
    statements(tableOf(from).drop).run(row.seq);
    forgetJobs(statements, [row.seq]);
  }
  if (key === "taken") takeKey(statements, row, now);
  tellOutcome(step, from, outcome);
}

function moveRow({ statements }: Step, from: JobRow, row: JobRow): void {
  const [source, target] = [tableOf(from), tableOf(row)];
  if (source === target) {
    statements(target.update).run(...sqlValues(target.names, row), row.seq);
    return;
  }
  statements(target.insert).run(...sqlValues(target.names, row));
  statements(source.drop).run(row.seq);
}

function writeSpec({ statements }: Step, from: JobRow, row: JobRow): void {
  if (specs.names.every((name) => from[name] === row[name])) return;
  const { seq } = row;
  const hasNewTags = from.tags !== row.tags;
  if (hasNewTags) dropTags(statements, [seq]);
  statements(specs.update).run(...sqlValues(specs.names, row), seq);
  if (hasNewTags) addTags(statements, seq, seq);
}
