/**
 * The little that the operations need of a SQLite connection. Both node:sqlite's DatabaseSync and better-sqlite3's
 * Database fit, because submit and settle also run on the caller's own connection, inside the caller's transaction.
 *
 * Every statement answers rows as arrays: 500 claimed rows cost a third less than as objects, and both drivers can do
 * it.
 */
import assert from "node:assert/strict";

export type SqlValue = string | number | null;

export interface Connection {
  prepare(sql: string): unknown;
  exec(sql: string): unknown;
}

/** The values of the inputs that a statement names, as in `seq = @seq`. */
export type NamedValues = Readonly<Record<string, SqlValue>>;
/** The named ones come first, if there are any; the others go to the question marks, in order. */
type Values = readonly (SqlValue | NamedValues)[];

export interface Statement {
  run(...values: Values): { readonly changes: number | bigint };
  get(...values: Values): unknown;
  all(...values: Values): unknown[];
}

/** A statement of one connection by its text, prepared once. */
export type Statements = (sql: string) => Statement;

interface NodeStatement {
  setReturnArrays(isOn: boolean): void;
}

interface BetterStatement {
  readonly reader: boolean;
  raw(isOn: boolean): unknown;
}

const known = new WeakMap<Connection, Statements>();

export function statementsOf(connection: Connection): Statements {
  const found = known.get(connection);
  if (found !== undefined) return found;
  const prepared = new Map<string, Statement>();
  const statements: Statements = (sql) => {
    let statement = prepared.get(sql);
    if (statement === undefined) {
      statement = prepareRows(connection, sql);
      prepared.set(sql, statement);
    }
    return statement;
  };
  known.set(connection, statements);
  return statements;
}

/** Names become question marks: SQLite's own binding by name costs 0.25 us per value, this 0.01. */
function prepareRows(connection: Connection, sql: string): Statement {
  const names = [...sql.matchAll(/@(\w+)|\?/g)].map(([, name]) => name ?? null);
  const text = sql.replaceAll(/@\w+/g, "?");
  const statement = connection.prepare(text) as Partial<NodeStatement & BetterStatement>;
  if (statement.setReturnArrays !== undefined) statement.setReturnArrays(true);
  else if (statement.reader === true) statement.raw?.(true);
  const prepared = statement as unknown as Statement;
  return names.every((name) => name === null) ? prepared : namedStatement(prepared, names);
}

function namedStatement(statement: Statement, names: readonly (string | null)[]): Statement {
  const inOrder = (values: Values): SqlValue[] => {
    const named = values[0] as NamedValues;
    const ordered: SqlValue[] = [];
    let next = 1;
    for (const name of names) ordered.push((name === null ? values[next++] : named[name]) as SqlValue);
    return ordered;
  };
  return {
    run: (...values) => statement.run(...inOrder(values)),
    get: (...values) => statement.get(...inOrder(values)),
    all: (...values) => statement.all(...inOrder(values)),
  };
}

/** The first value of the first row; null without a row. */
export function readValue<A extends SqlValue>(
  statements: Statements,
  sql: string,
  ...values: SqlValue[]
): A | null {
  const row = statements(sql).get(...values) as [A] | undefined;
  return row === undefined ? null : row[0];
}

/**
 * The limit of a statement as an input. SQLite's planner looks at the value of a bare one, and so prepares the
 * statement anew whenever it is bound: a claim of one job took 53 us instead of 3.
 */
export function limitTo(input: string): string {
  return `LIMIT ${input} + 0`;
}

/** Rows per statement: one statement per row is 1.6 times slower, larger sizes gain nothing measurable. */
const setSizes = [64, 8, 1] as const;

export interface RowSet {
  readonly rows: number;
  readonly sql: string;
}

/**
 * A statement over sets of rows, in which the set is the table `e` with the columns `at` (the row's number) and
 * these. `manySql` takes the definition of that table. `oneSql` is for one row, with its inputs in place: a single
 * row through a table costs twice as much.
 */
export function openRowSets(
  columns: string,
  manySql: (set: string) => string,
  oneSql: string,
): readonly RowSet[] {
  assert(!/\bat\b/.test(columns), "a set has a column of that name, the number of the row");
  const inputs = columns.replaceAll(/\w+/g, "?");
  return setSizes.map((rows) => {
    const set = Array.from({ length: rows }, (_, at) => `(${at}, ${inputs})`).join(", ");
    return { rows, sql: rows === 1 ? oneSql : manySql(`e (at, ${columns}) AS (VALUES ${set})`) };
  });
}

/**
 * Runs it for many rows with few statements. `values` are those of all rows, `width` of each; `namedOf` gives the
 * named inputs of the set that starts with the row of this number, where it has any. Answers how many rows of the table
 * were written.
 */
export function runRowSets(
  statements: Statements,
  sets: readonly RowSet[],
  { values, width }: { readonly values: readonly SqlValue[]; readonly width: number },
  namedOf?: (row: number) => NamedValues,
): number {
  let from = 0;
  let changes = 0;
  for (const { rows, sql } of sets) {
    for (const size = rows * width; values.length - from >= size; from += size) {
      const ofSet = values.slice(from, from + size);
      const statement = statements(sql);
      const done =
        namedOf === undefined ? statement.run(...ofSet) : statement.run(namedOf(from / width), ...ofSet);
      changes += Number(done.changes);
    }
  }
  return changes;
}

/** Reads by many values with few statements: the rows of all sets. No named inputs. */
export function readRowSets(
  statements: Statements,
  sets: readonly RowSet[],
  values: readonly SqlValue[],
): unknown[] {
  const found: unknown[] = [];
  let from = 0;
  for (const { rows, sql } of sets) {
    for (; values.length - from >= rows; from += rows)
      found.push(...statements(sql).all(...values.slice(from, from + rows)));
  }
  return found;
}
