/**
 * The general path: writes what a rule made of one job (store/rules), wherever it stood and wherever it stands now,
 * with its key, its tags and what is emitted about it.
 *
 *  from \ to     live            finished                not kept
 *  live          update          insert, delete          delete
 *  finished      insert, delete  update                  delete
 */
import type { JobFieldName, JobRow } from "../../../store/job-fields.ts";
import type { Outcome } from "../../../store/rules/advance.ts";
import { isFinished } from "../../../store/rules/change.ts";
import { emitOutcome } from "../../../store/rules/call-events.ts";
import {
  finishedNames,
  insertSql,
  liveNames,
  specNames,
  sqlValue,
  updateSql,
} from "../connection/columns.ts";
import type { SqlValue, Statements } from "../connection/connection.ts";
import { addTags, dropTags, deleteJobs } from "./delete-job.ts";
import type { Step } from "../connection/transaction.ts";
import { freeKey, takeKey } from "./unique-keys.ts";

interface Table {
  readonly names: readonly JobFieldName[];
  readonly insert: string;
  /** Writes the fields that differ. A retry changes nine of 26: writing all of them takes 1.5 us more. */
  readonly update: (statements: Statements, from: JobRow, row: JobRow) => void;
  /** Input: seq. */
  readonly drop: string;
}

function openTable(name: string, names: readonly JobFieldName[]): Table {
  const drop = `DELETE FROM ${name} WHERE seq = ?`;
  return { names, insert: insertSql(name, names), update: openUpdate(name, names), drop };
}

function openUpdate(table: string, names: readonly JobFieldName[]): Table["update"] {
  /** By which fields differ, one bit each: few combinations ever occur. */
  const known = new Map<number, string>();
  return (statements, from, row) => {
    const values: SqlValue[] = [];
    let bits = 0;
    for (let at = 0; at < names.length; at++) {
      const name = names[at] as JobFieldName;
      if (from[name] === row[name]) continue;
      bits += 2 ** at;
      values.push(sqlValue(row[name]));
    }
    if (bits === 0) return;
    let sql = known.get(bits);
    if (sql === undefined) {
      sql = updateSql(
        table,
        names.filter((name) => from[name] !== row[name]),
      );
      known.set(bits, sql);
    }
    statements(sql).run(...values, row.seq);
  };
}

const specs = openTable("millrace_spec", specNames);
const live = openTable("millrace_job", liveNames);
const finished = openTable("millrace_history", finishedNames);

export const updateLive = live.update;

/** A row that stays in its table, about which nothing is emitted. */
export function updateRow(statements: Statements, from: JobRow, row: JobRow): void {
  specs.update(statements, from, row);
  tableOf(row).update(statements, from, row);
}

const tableOf = (row: JobRow): Table => (isFinished(row) ? finished : live);

/** `from` is the job as it stood. What was not read of its spec is undefined in both. */
export function writeOutcome(step: Step, from: JobRow, outcome: Outcome): void {
  const { statements, now } = step;
  const { row, isKept, key } = outcome;
  if (key === "freed") freeKey(statements, row.seq);
  if (isKept) {
    writeSpec(step, from, row);
    moveRow(step, from, row);
  } else {
    statements(tableOf(from).drop).run(row.seq);
    deleteJobs(statements, [row.seq], row.durable === 0 ? [] : [row.seq]);
  }
  if (key === "taken") takeKey(statements, row, now);
  emitOutcome(step, from, outcome);
}

function moveRow({ statements }: Step, from: JobRow, row: JobRow): void {
  const [source, target] = [tableOf(from), tableOf(row)];
  if (source === target) {
    target.update(statements, from, row);
    return;
  }
  statements(target.insert).run(...target.names.map((name) => sqlValue(row[name])));
  statements(source.drop).run(row.seq);
}

function writeSpec({ statements }: Step, from: JobRow, row: JobRow): void {
  const { seq } = row;
  const hasNewTags = from.tags !== row.tags;
  if (hasNewTags) dropTags(statements, [seq]);
  specs.update(statements, from, row);
  if (hasNewTags) addTags(statements, seq, seq);
}
