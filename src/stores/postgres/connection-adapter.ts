/**
 * The caller's own connection, whichever library it comes from: told by its shape, so that none of them is imported,
 * and used only to run one statement with parameters. Each adapter says whether a transaction is open where its library
 * knows, else null.
 *
 *  pg            a client                                   knows by the protocol's own status
 *  postgres.js   the `sql` of begin(), or a reserved one    does not know
 *  Drizzle       the `tx` over either of them               as the connection beneath
 *  Kysely        the `trx`                                  does not know: it may have ended
 *  Knex          the `trx`                                  knows
 *
 * Values come back as the text that Postgres sent, past every type parser that the caller may have set.
 */
import { MillraceError } from "../../model/error.ts";
import type { Row, Value } from "./database.ts";
import { rawTypes } from "./statement.ts";
import { valueText } from "./text.ts";
import type { PgClient } from "./driver.ts";
import { rowText, unpackRow } from "./row-text.ts";

export interface Connection {
  run(text: string, values: readonly Value[]): Promise<Row[]>;
  isOpen(): boolean | null;
}

export function adaptConnection(given: unknown): Connection | null {
  if (isPgClient(given)) return pgConnection(given);
  if (isPostgresJs(given)) return postgresJsConnection(given);
  if (isKysely(given)) return kyselyConnection(given);
  if (isKnex(given)) return knexConnection(given);
  const beneath = clientOfDrizzle(given);
  return beneath === null ? null : adaptConnection(beneath);
}

interface CallersClient extends PgClient {
  getTransactionStatus?(): string | null;
}

/** A `pg` client; a pool has `totalCount` and gives every statement to another connection. */
function isPgClient(given: unknown): given is CallersClient {
  if (typeof given !== "object" || given === null) return false;
  const { query, connect } = given as { query?: unknown; connect?: unknown };
  return typeof query === "function" && typeof connect === "function" && !("totalCount" in given);
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

function isPostgresJs(given: unknown): given is PostgresJs {
  if (typeof given !== "function") return false;
  const { unsafe, typed } = given as Partial<PostgresJs>;
  return typeof unsafe === "function" && typeof typed === "function";
}

/**
 * Postgres decides the type, and postgres.js has no serialiser for it: the one for boolean would make "f" of every
 * text.
 */
const unknownType = 705;

function postgresJsConnection(sql: PostgresJs): Connection {
  return {
    async run(text, values) {
      const typed = values.map((value) => (value === null ? null : sql.typed(valueText(value), unknownType)));
      const rows = await sql.unsafe(text, typed).raw();
      return rows.map((row) => row.map((value) => (value === null ? null : decoder.decode(value))));
    },
    // The one with begin() is the pool.
    isOpen: () => ("begin" in sql ? false : null),
  };
}

const decoder = new TextDecoder();

/** Drizzle keeps what it was given, or what it took from it for the transaction, in its session. */
function clientOfDrizzle(given: unknown): unknown {
  if (typeof given !== "object" || given === null) return null;
  const { _: inner } = given as { _?: { session?: { client?: unknown } } };
  return inner?.session?.client ?? null;
}

interface Kysely {
  readonly isTransaction: boolean;
  withoutPlugins(): Kysely;
  executeQuery(query: object): Promise<{ readonly rows: readonly unknown[] }>;
}

function isKysely(given: unknown): given is Kysely {
  if (typeof given !== "object" || given === null) return false;
  const { isTransaction, withoutPlugins, executeQuery } = given as Partial<Kysely>;
  return (
    typeof isTransaction === "boolean" &&
    typeof withoutPlugins === "function" &&
    typeof executeQuery === "function"
  );
}

function kyselyConnection(trx: Kysely): Connection {
  const plain = trx.withoutPlugins();
  return {
    async run(text, values) {
      const sql = rowText(text);
      const query = { kind: "RawNode", sqlFragments: [sql], parameters: [] };
      const compiled = { sql, parameters: values, query, queryId: { queryId: "millrace" } };
      const { rows } = await plain.executeQuery(compiled).catch((cause: unknown) => {
        if (!(cause instanceof Error) || !cause.message.startsWith("Transaction is already")) throw cause;
        throw new MillraceError(
          "not-in-transaction",
          `The transaction has ended. (Kysely: ${cause.message})`,
          { cause },
        );
      });
      return rows.map(unpackRow);
    },
    isOpen: () => (trx.isTransaction ? null : false),
  };
}

interface Knex {
  readonly isTransaction?: boolean;
  readonly client: { readonly dialect: string };
  isCompleted?(): boolean;
  raw(text: string, values: readonly unknown[]): PromiseLike<{ readonly rows: readonly unknown[] }>;
}

function isKnex(given: unknown): given is Knex {
  if (typeof given !== "function") return false;
  const { raw, client } = given as Partial<Knex>;
  return typeof raw === "function" && client?.dialect === "postgresql";
}

function knexConnection(trx: Knex): Connection {
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
    isOpen: () => trx.isTransaction === true && trx.isCompleted?.() !== true,
  };
}
