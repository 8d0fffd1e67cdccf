/**
 * The columns of the three job tables, made from the table of fields (store/job-fields.ts): their order and types, the
 * values that a move between two tables writes, and how a row is read by name. A field that is added to the table of
 * fields appears in all of these.
 *
 * Order: columns without nulls come first, and fixed widths before texts, because reading a column after a null or a
 * text is slower.
 */
import { columnOf, fieldNames, isClearedBy, jobFields } from "../../../store/job-fields.ts";
import type { JobField, JobFieldName, JobRow } from "../../../store/job-fields.ts";
import { initialValues } from "../../../store/rules/advance.ts";
import { inLines, sql } from "../../../store/sql.ts";
import { packText, unpackText } from "./packed-values.ts";

export type Rule = "lease" | "place" | "finish" | "replay";

/** A SQL expression for each of these fields. */
export type Expressions = Partial<Record<JobFieldName, string>>;

const typeNames = { integer: "int8", flag: "int2", text: "text", list: "text" } as const;
/** Integers that stay small in every job: 22 bytes less per row. */
const narrow: Expressions = {
  attempt: "int4",
  rev: "int4",
  durable: "int4",
  state: "int2",
  holds: "int2",
};
const widths: Readonly<Record<string, number>> = { int8: 8, int4: 4, int2: 2, text: 0 };

const fieldOf = (name: JobFieldName): JobField => jobFields[name];
export const typeOf = (name: JobFieldName): string => narrow[name] ?? typeNames[fieldOf(name).type];
/** A large input is kept in the table payload, and its row has none. */
const isNullable = (name: JobFieldName): boolean => name === "input" || fieldOf(name).isNullable === true;

function orderOf(name: JobFieldName): number {
  const width = widths[typeOf(name)] ?? 0;
  return (fieldOf(name).isNullable === true ? 2 : 0) + (width === 0 ? 1 : 0) - width / 100;
}

const fields = fieldNames().sort((one, other) => orderOf(one) - orderOf(other));
export const columnList = inLines(fields.map(columnOf));

/** Texts compare by their bytes, which is the order of ids, keys and names. */
export const columnsSql = fields
  .map((name) => {
    const collation = typeOf(name) === "text" ? ' COLLATE "C"' : "";
    return `${columnOf(name)} ${typeOf(name)}${collation}${isNullable(name) ? "" : " NOT NULL"}`;
  })
  .join(",\n  ");

export function initialSql(name: JobFieldName): string {
  const { initial = null } = fieldOf(name);
  return typeof initial === "string" ? `'${initial.replaceAll("'", "''")}'` : String(initial ?? "NULL");
}

/**
 * The columns of a new job that its submit does not give, as jsonb_populate_record takes them. No initial value has a
 * quote.
 */
export const initialJson = sql`'{
  ${inLines(
    Object.entries(packFields(initialValues(({ home }) => home !== "spec"))).map(
      ([column, value]) => `"${column}": ${JSON.stringify(value)}`,
    ),
  )}}'`;

export function packFields(row: Partial<JobRow>): Record<string, unknown> {
  const packed = Object.entries(row).map(([name, value]) => [columnOf(name), packValue(value)]);
  return Object.fromEntries(packed) as Record<string, unknown>;
}

export type FieldValue = JobRow[JobFieldName];

export function packValue(value: FieldValue): string | number | null {
  if (typeof value === "string") return packText(value);
  return typeof value === "object" && value !== null ? listText(value) : value;
}

export function listText(list: readonly string[]): string {
  return JSON.stringify(list.map(packText));
}

export function readList(text: string): string[] {
  return (JSON.parse(text) as unknown[]).map((item) => unpackText(String(item)));
}

function valuesSql(valueOf: (name: JobFieldName) => string): string {
  return inLines(fields.map(valueOf));
}

/** One expression per column of a new row. A field that is not given has its initial value. */
export function newRowSql(given: Expressions): string {
  return valuesSql((name) => given[name] ?? initialSql(name));
}

/**
 * The columns of a row that moves: fields in `changes` get new values, fields that the rule clears get their initial
 * values, the others are copied.
 */
export function movedBy(rule: Rule, changes: Expressions, from = ""): string {
  const isCleared = isClearedBy(rule);
  return valuesSql(
    (name) => changes[name] ?? (isCleared(fieldOf(name)) ? initialSql(name) : `${from}${columnOf(name)}`),
  );
}

/**
 * The columns that `movedBy` reads of a row, and `others`: all that have to be carried from one statement to the next.
 */
export function carriedBy(
  rule: Rule,
  changes: Expressions,
  others: readonly JobFieldName[],
  from = "l.",
): string {
  const isCleared = isClearedBy(rule);
  const isCopied = (name: JobFieldName): boolean => changes[name] === undefined && !isCleared(fieldOf(name));
  const carried = fields.filter((name) => isCopied(name) || others.includes(name));
  return inLines(carried.map((name) => `${from}${columnOf(name)}`));
}

/** Assignments to the row variable j for all fields that these rules clear. */
export function clearSql(...rules: readonly Rule[]): string {
  const cleared = fieldNames((field) => rules.some((rule) => isClearedBy(rule)(field)));
  return inLines(
    cleared.map((name) => `j.${columnOf(name)} := ${initialSql(name)};`),
    " ",
  );
}

/** A row lies in one of these; all three have the same columns. */
export const jobTables = ["waiting", "leased", "history"] as const;
export type JobTable = (typeof jobTables)[number];

export function ofAllTables(selected: string, where = "true"): string {
  const isList = selected.includes("\n");
  return jobTables
    .map((table) =>
      isList
        ? sql`
          SELECT
            ${selected}
          FROM @${table} j WHERE ${where}`
        : sql`SELECT ${selected} FROM @${table} j WHERE ${where}`,
    )
    .join("\nUNION ALL ");
}

export const wholeInput = (row: string): string =>
  `coalesce(${row}.input, (SELECT p.input FROM @payload p WHERE p.seq = ${row}.seq))`;

/** These fields of a row as a select list, in the order in which `readFields` reads them. */
export function selectSql(row: string, names: readonly JobFieldName[]): string {
  return inLines(names.map((name) => (name === "input" ? wholeInput(row) : `${row}.${columnOf(name)}`)));
}

/** `seq int8, id text, ...`, as a function declares its result. */
export function declareSql(names: readonly JobFieldName[]): string {
  return inLines(names.map((name) => `${columnOf(name)} ${typeOf(name)}`));
}

export function readFields<Name extends JobFieldName>(
  row: readonly unknown[],
  names: readonly Name[],
): Pick<JobRow, Name> {
  const read = names.map((name, at) => [name, readValue(row[at] ?? null, fieldOf(name))]);
  return Object.fromEntries(read) as Pick<JobRow, Name>;
}

function readValue(value: unknown, { type }: JobField): unknown {
  if (value === null) return null;
  if (type === "list") return readList(value as string);
  return type === "text" ? unpackText(value as string) : Number(value);
}
