/**
 * The little that the operations need of a SQLite connection. Both node:sqlite's DatabaseSync and better-sqlite3's Database fit,
 * because submit and settle also run on the caller's own connection, inside the caller's transaction.
 *
 * Every statement answers rows as arrays: 500 claimed rows cost a third less than as objects, and both drivers can do it.
 */

export type SqlValue = string | number | null;

export interface Connection {
  prepare(sql: string): unknown;
  exec(sql: string): unknown;
}

/** Written @name in a statement. */
export type NamedValues = Readonly<Record<string, SqlValue>>;
/** Values by name come first, if there are any. */
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
  setAllowBareNamedParameters(isOn: boolean): void;
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

function prepareRows(connection: Connection, sql: string): Statement {
  const statement = connection.prepare(sql) as Partial<NodeStatement & BetterStatement>;
  if (statement.setReturnArrays !== undefined) {
    statement.setReturnArrays(true);
    // The caller's own connection may have been opened without; better-sqlite3 knows no other names.
    statement.setAllowBareNamedParameters?.(true);
  } else if (statement.reader === true) statement.raw?.(true);
  return statement as unknown as Statement;
}

/** Rows per statement: one statement per row is 1.6 times slower, larger sizes gain nothing measurable. */
const setSizes = [64, 8, 1] as const;

export interface RowSets {
  readonly rows: number;
  readonly sql: string;
}

/** A statement for sets of rows: `row` is one row's inputs, the row numbered `at` of its set. */
export function openRowSets(
  row: (at: number) => string,
  sqlOf: (rows: string) => string,
): readonly RowSets[] {
  return setSizes.map((rows) => ({
    rows,
    sql: sqlOf(Array.from({ length: rows }, (_, at) => row(at)).join(",")),
  }));
}

/**
 * Runs it for many rows with few statements. `values` are those of all rows, `width` of each; `namedOf` gives the named inputs of the set
 * that starts with the row of this number.
 */
export function runRowSets(
  statements: Statements,
  sets: readonly RowSets[],
  { values, width }: { readonly values: readonly SqlValue[]; readonly width: number },
  namedOf: (row: number) => NamedValues,
): void {
  let from = 0;
  for (const { rows, sql } of sets) {
    for (const size = rows * width; values.length - from >= size; from += size)
      statements(sql).run(namedOf(from / width), ...values.slice(from, from + size));
  }
}
