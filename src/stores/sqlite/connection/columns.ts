/**
 * The table of fields (store/job-fields.ts) as SQLite sees it: which table has which columns, their DDL, lists of
 * columns and the values that go into them and come out again. Everything by name: a field that is added to the table
 * needs no edit here.
 *
 *  millrace_spec      the fields of home spec
 *  millrace_job       seq, id and what a live job has beside its spec
 *  millrace_history   seq, id and what a finished job has beside its spec
 */
import {
  columnOf,
  fieldNames,
  isFinishedField,
  isLiveField,
  isSpecField,
  jobFields,
} from "../../../store/job-fields.ts";
import type { JobField, JobFieldName, JobRow } from "../../../store/job-fields.ts";
import { clearedBy } from "../../../store/rules/advance.ts";
import type { SqlValue } from "./connection.ts";

const keyNames = ["seq", "id"] as const satisfies readonly JobFieldName[];

export const specNames = fieldNames(isSpecField);
export const liveNames: readonly JobFieldName[] = [...keyNames, ...fieldNames(isLiveField)];
export const finishedNames: readonly JobFieldName[] = [...keyNames, ...fieldNames(isFinishedField)];

const sqlTypes = { integer: "INTEGER", text: "TEXT", flag: "INTEGER", list: "TEXT" } as const;

/** `keys` says what else is true of a column: PRIMARY KEY, UNIQUE. */
export function columnsDdl(
  names: readonly JobFieldName[],
  keys: Readonly<Partial<Record<JobFieldName, string>>>,
): string {
  return names
    .map((name) => `${columnOf(name)} ${columnDdl(jobFields[name])} ${keys[name] ?? ""}`)
    .join(", ");
}

/** A field that a statement leaves out has its initial value. */
function columnDdl({ type, isNullable, initial }: JobField): string {
  const start = initial === undefined || initial === null ? "" : ` DEFAULT ${literal(initial)}`;
  return `${sqlTypes[type]}${isNullable === true ? "" : " NOT NULL"}${start}`;
}

/** How fields are computed where they are not simply their columns. */
export type Formulas = Readonly<Partial<Record<JobFieldName, string | number>>>;

/** What a rule sets back to its initial value. */
export function clearedFormulas(rule: Parameters<typeof clearedBy>[0]): Formulas {
  const cleared = Object.entries(clearedBy(rule)) as [name: string, value: JobField["initial"]][];
  return Object.fromEntries(cleared.map(([name, value]) => [name, literal(value ?? null)]));
}

function literal(value: string | number | null): string {
  return typeof value === "string" ? `'${value.replaceAll("'", "''")}'` : String(value ?? "NULL");
}

/** Columns of a SELECT. Where live or finished jobs are joined with their specs, the former are `j`. */
export function columnList(names: readonly JobFieldName[], formulas: Formulas = {}, source = ""): string {
  return names.map((name) => formulas[name] ?? `${source}${columnOf(name)}`).join(", ");
}

/** Seq and id stand in both tables of a join. */
export const fromJob: Formulas = { seq: "j.seq", id: "j.id" };

/** The part of an UPDATE that says what becomes of these fields. */
export function setList(formulas: Formulas): string {
  return Object.entries(formulas)
    .map(([name, formula]) => `${columnOf(name)} = ${formula}`)
    .join(", ");
}

/** Inputs: these fields of a row, then its seq. */
export function updateSql(table: string, names: readonly JobFieldName[]): string {
  return `UPDATE ${table} SET ${names.map((name) => `${columnOf(name)} = ?`).join(", ")} WHERE seq = ?`;
}

/** Inputs: these fields of a row. */
export function insertSql(table: string, names: readonly JobFieldName[]): string {
  return `INSERT INTO ${table} (${columnList(names)}) VALUES (${names.map(() => "?").join(", ")})`;
}

/** A value as SQLite keeps it: a list is JSON. */
export function sqlValue(value: string | number | readonly string[] | null): SqlValue {
  return value === null || typeof value !== "object" ? value : JSON.stringify(value);
}

export type Picked<Name extends JobFieldName> = Pick<JobRow, Name>;

/**
 * Reads rows whose columns are these fields; `base` has what the columns do not say. Per row of 16 columns this costs
 * 0.2 us more than an object literal would, and SQLite's own objects cost 0.8 us more.
 */
export function rowReader<Name extends JobFieldName>(
  names: readonly Name[],
  base: Partial<JobRow> = {},
): (values: unknown) => Picked<Name> {
  const blank: Record<string, unknown> = {
    ...base,
    ...Object.fromEntries(names.map((name) => [name, null])),
  };
  const lists = names.filter((name) => (jobFields[name] as JobField).type === "list");
  return (values) => {
    const row = { ...blank };
    for (let at = 0; at < names.length; at++) row[names[at] as Name] = (values as SqlValue[])[at];
    for (const name of lists) if (row[name] !== null) row[name] = JSON.parse(row[name] as string);
    return row as Picked<Name>;
  };
}

/** Reads one of these columns. */
export function fieldReader<Name extends JobFieldName>(
  names: readonly JobFieldName[],
  name: Name,
): (values: unknown) => JobRow[Name] {
  const at = names.indexOf(name);
  return (values) => (values as SqlValue[])[at] as JobRow[Name];
}

/**
 * Where each of these columns stands in a row, for the few readers whose rows are so many that they are written out as
 * a literal: `({ seq: row[at.seq], ... })` takes a tenth of the time of `rowReader`.
 */
export function placesOf<Name extends JobFieldName>(names: readonly Name[]): Readonly<Record<Name, number>> {
  return Object.fromEntries(names.map((name, at) => [name, at])) as Record<Name, number>;
}
