/**
 * The caller's own connection, which may come from several libraries. The adapter recognises the library by the shape
 * of the object, so no library is imported, and uses the connection only to run one statement with parameters. Some
 * libraries know whether a transaction is open; for the others the answer is null.
 *
 *  pg            a client                                   knows by the protocol's own status
 *  postgres.js   the `sql` of begin(), or a reserved one    does not know
 *  Drizzle       the `tx` over either of them               as the connection beneath
 *  Kysely        the `trx`                                  does not know: it may have ended
 *  Knex          the `trx`                                  knows
 *  any other     { query(text, values) }                    does not know
 *
 * A pool, or a `db` over one, is refused with the advice to pass the transaction, because a pool would run each
 * statement on another connection. A client of Prisma is refused by name, with the way to wrap one, because its `tx`
 * and its client over a pool look alike.
 *
 * Values come back as the text that Postgres sent: type parsers that the caller has set are bypassed.
 */
import { MillraceError } from "../../../model/error.ts";
import type { Row, Value } from "./database.ts";
import { rawTypes } from "./statement.ts";
import { valueText } from "../functions/packed-values.ts";
import type { PgClient } from "./driver.ts";
import { rowText, unpackRow } from "./row-notation.ts";

export interface Connection {
  run(text: string, values: readonly Value[]): Promise<Row[]>;
  /** Whether a transaction is open; null, or no such method, if the library does not know. */
  isOpen?(): boolean | null;
}

export function adaptConnection(given: unknown): Connection | null {
  const isShape = (typeof given === "object" && given !== null) || typeof given === "function";
  const shape = (isShape ? given : {}) as Readonly<Record<string, unknown>>;
  const hasMethods = (...names: readonly string[]): boolean =>
    names.every((name) => typeof shape[name] === "function");
  if ("totalCount" in shape && "idleCount" in shape)
    throw passTheTransaction("a pool of pg", "the client that sent BEGIN");
  if ("$queryRawUnsafe" in shape)
    throw unusable(
      "A client of Prisma is not taken as it is. Inside prisma.$transaction(async (tx) => …) pass { query: (text, values) => tx.$queryRawUnsafe(text, ...values) }; docs/guides/jobs.md has more.",
    );
  if (hasMethods("query", "connect")) return pgConnection(given as CallersClient);
  if (hasMethods("unsafe", "typed")) return postgresJsConnection(given as PostgresJs);
  if (hasMethods("withoutPlugins", "executeQuery")) return kyselyConnection(given as Kysely);
  if (hasMethods("raw") && (given as Knex).client?.dialect === "postgresql")
    return knexConnection(given as Knex);
  const beneath = (given as Drizzle | null)?._?.session?.client ?? null;
  if (beneath !== null) return adaptConnection(beneath);
  return hasMethods("query") ? queryConnection(given as Queryable) : null;
}

const unusable = (sentence: string, options?: { readonly cause: unknown }): MillraceError =>
  new MillraceError("not-in-transaction", sentence, options);

const passTheTransaction = (what: string, instead: string): MillraceError =>
  unusable(
    `This is ${what}, which gives every statement to another connection. Pass the transaction: ${instead}.`,
  );

/**
 * Any object that runs a statement with $1, $2, ... on the caller's own transaction, and answers with rows as objects.
 */
interface Queryable {
  query(
    text: string,
    values: readonly (string | null)[],
  ): PromiseLike<readonly unknown[] | { readonly rows: readonly unknown[] }>;
}

function queryConnection(given: Queryable): Connection {
  return {
    async run(text, values) {
      const answer = await given.query(rowText(text), values.map(valueText));
      const rows = "rows" in answer ? answer.rows : answer;
      if (!Array.isArray(rows)) throw unusable("query(text, values) must answer with its rows, or { rows }.");
      return rows.map(unpackRow);
    },
  };
}

interface CallersClient extends PgClient {
  getTransactionStatus?(): string | null;
}

function pgConnection(client: CallersClient): Connection {
  return {
    async run(text, values) {
      const { rows } = await client.query({ text, values, rowMode: "array", types: rawTypes });
      return rows as Row[];
    },
    isOpen() {
      const status = client.getTransactionStatus?.();
      return status === "T" ? true : status === "I" || status === "E" ? false : null;
    },
  };
}

interface PostgresJs {
  unsafe(text: string, values: readonly unknown[]): { raw(): Promise<readonly (Uint8Array | null)[][]> };
  typed(value: unknown, type: number): unknown;
}

/**
 * A type for which postgres.js has no serialiser, so Postgres decides. With the type of a boolean, postgres.js would
 * turn every text into "f".
 */
const unknownType = 705;

function postgresJsConnection(sql: PostgresJs): Connection {
  if ("begin" in sql) throw passTheTransaction("a pool of postgres.js", "the sql that begin() gives");
  return {
    async run(text, values) {
      const typed = values.map((value) => (value === null ? null : sql.typed(valueText(value), unknownType)));
      const rows = await sql.unsafe(text, typed).raw();
      return rows.map((row) => row.map((value) => (value === null ? null : decoder.decode(value))));
    },
  };
}

const decoder = new TextDecoder();

/**
 * Drizzle keeps the connection in its session: the one that it was given, or the one that it took for the transaction.
 */
interface Drizzle {
  readonly _?: { readonly session?: { readonly client?: unknown } };
}

interface Kysely {
  readonly isTransaction: boolean;
  withoutPlugins(): Kysely;
  executeQuery(query: object): Promise<{ readonly rows: readonly unknown[] }>;
}

function kyselyConnection(trx: Kysely): Connection {
  if (!trx.isTransaction) throw passTheTransaction("a db of Kysely", "the trx of transaction().execute()");
  const plain = trx.withoutPlugins();
  return {
    async run(text, values) {
      const sql = rowText(text);
      const query = { kind: "RawNode", sqlFragments: [sql], parameters: [] };
      const compiled = { sql, parameters: values, query, queryId: { queryId: "millrace" } };
      const { rows } = await plain.executeQuery(compiled).catch((cause: unknown) => {
        if (!(cause instanceof Error) || !cause.message.startsWith("Transaction is already")) throw cause;
        throw unusable(`The transaction has ended. (Kysely: ${cause.message})`, { cause });
      });
      return rows.map(unpackRow);
    },
  };
}

interface Knex {
  readonly isTransaction?: boolean;
  readonly client?: { readonly dialect: string };
  isCompleted?(): boolean;
  raw(text: string, values: readonly unknown[]): PromiseLike<{ readonly rows: readonly unknown[] }>;
}

function knexConnection(trx: Knex): Connection {
  if (trx.isTransaction !== true) throw passTheTransaction("a db of Knex", "the trx of transaction()");
  return {
    async run(text, values) {
      const used: unknown[] = [];
      const marked = rowText(text).replace(/\$(\d+)/g, (_, number: string) => {
        used.push(values[Number(number) - 1]);
        return "?";
      });
      const { rows } = await trx.raw(marked, used);
      return rows.map(unpackRow);
    },
    isOpen: () => trx.isCompleted?.() !== true,
  };
}
