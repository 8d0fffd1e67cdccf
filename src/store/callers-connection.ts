/**
 * A connection of the caller's own with an open transaction, by the shapes of the libraries that the stores know. The
 * type keeps everything else out while code is written; the store checks the object itself when it gets it.
 */

type Method = (...given: never[]) => unknown;

export type CallersConnection =
  /** pg, or any object that runs a statement with $1, $2, ... and answers with its rows. */
  | { readonly query: Method }
  /** postgres.js: the `sql` that begin() gives. */
  | { readonly unsafe: Method }
  /** Kysely on Postgres: the `trx`. */
  | { readonly executeQuery: Method }
  /** Knex on Postgres: the `trx`. */
  | { readonly raw: Method }
  /** Drizzle: the `tx`. */
  | { readonly select: Method; readonly transaction: Method }
  /** node:sqlite or better-sqlite3. */
  | { readonly prepare: Method; readonly exec: Method };
