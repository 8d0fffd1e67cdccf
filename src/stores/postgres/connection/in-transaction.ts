/**
 * Submit, settle and the slips of durable runs on the caller's own connection, inside the transaction that is open
 * there: their writes become visible with the caller's commit, or never. They only append, and change only the rows and
 * keys of their own jobs, so a slow caller holds up no other call, even with the first job of a name.
 *
 * A connection to another database is refused before anything is written, because this store's workers would never see
 * the jobs. A NOTIFY inside the transaction informs the other processes: it is sent with the commit, or never.
 */
import { MillraceError } from "../../../model/error.ts";
import type { TransactionStore } from "../../../store/store.ts";
import { writeMore } from "../feed/announce.ts";
import type { Calls } from "../functions/call.ts";
import { adaptConnection } from "./connection-adapter.ts";
import type { Connection } from "./connection-adapter.ts";
import type { Row, Value } from "./database.ts";
import { storeError } from "./errors.ts";
import { commitSlip } from "../journal/journal.ts";
import { settleIfLeased } from "../runs/settle.ts";
import { submit } from "../jobs/submit.ts";
import { sql } from "../../../store/sql.ts";

export interface OwnStore {
  readonly calls: Calls;
  readonly where: string;
  readonly channel: string;
}

/** What is learned about a connection is used for all later calls. */
export function openTransactions(own: OwnStore): (given: unknown) => TransactionStore {
  const { channel } = own;
  const checkDatabase = databaseCheck(own);

  return (given) => {
    const connection = adaptConnection(given);
    if (connection === null) throw refused("it is no connection of a driver that Millrace knows");
    if (connection.isOpen?.() === false) throw refused("no transaction is open on it");
    /** The routes that may have room at a gate. The NOTIFY carries them, because the feed does not show them. */
    const ready = new Set<number>();
    const inside = callsInside(connection, own, (hints) => {
      for (const route of hints.routes) ready.add(route);
    });
    const inOwn = async <Answer>(operate: () => Promise<Answer>): Promise<Answer> => {
      if (!(await isInTransaction(connection, inside))) throw refused("no transaction is open on it");
      await checkDatabase(given as object, inside);
      return operate();
    };
    const run = async <Answer>(operate: () => Promise<Answer>): Promise<Answer> => {
      const answer = await inOwn(operate);
      await inside.write("SELECT pg_notify($1, $2)", [channel, writeMore(ready)]);
      return answer;
    };
    return {
      async submit(units) {
        return run(() => submit(inside, units));
      },
      async settleIfLeased(settles) {
        return run(() => settleIfLeased(inside, settles));
      },
      async commitSlip(lease, slip) {
        return inOwn(() => commitSlip(inside, lease, slip));
      },
    };
  };
}

function callsInside(connection: Connection, { calls, where }: OwnStore, emit: Calls["emit"]): Calls {
  const run = async (text: string, values: readonly Value[] = []): Promise<Row[]> => {
    try {
      return await connection.run(text, values);
    } catch (error) {
      // Nothing is visible before the caller's commit, so the outcome is never unknown.
      throw storeError(error, where, { isSent: false, isWrite: true });
    }
  };
  return {
    ...calls,
    commit: null,
    isInside: true,
    write: run,
    read: run,
    emit,
    ride: () => null,
  };
}

/**
 * The driver's own answer if it has one. Otherwise two statements are sent: only in an open transaction do both see the
 * same transaction id.
 */
async function isInTransaction(connection: Connection, inside: Calls): Promise<boolean> {
  const known = connection.isOpen?.() ?? null;
  if (known !== null) return known;
  const text = "SELECT pg_current_xact_id()::text";
  const [first] = await inside.read(text);
  const [second] = await inside.read(text);
  return first?.[0] === second?.[0];
}

/** Identifies a database during one run of its server: the same on every connection, for every user. */
const identityText = sql`
  SELECT oid, extract(epoch FROM pg_postmaster_start_time()), datname
  FROM pg_catalog.pg_database WHERE datname = current_database()`;

/** A connection never changes its database, so each connection is checked once. */
function databaseCheck({ calls, where }: OwnStore): (given: object, inside: Calls) => Promise<void> {
  const trusted = new WeakSet<object>();
  const identityOf = async (asked: Calls): Promise<{ identity: string; name: string }> => {
    const [row] = await asked.read(identityText);
    return { identity: `${row?.[0]} ${row?.[1]}`, name: row?.[2] ?? "" };
  };
  let own: string | null = null;
  return async (given, inside) => {
    if (trusted.has(given)) return;
    const { identity, name } = await identityOf(inside);
    // If the two differ, the store's own side is read again, because the server may have been restarted since.
    if (identity !== own) own = (await identityOf(calls)).identity;
    if (identity !== own)
      throw refused(
        `it leads to another database (${JSON.stringify(name)}) than the store, which is in ${where}`,
      );
    trusted.add(given);
  };
}

function refused(why: string): MillraceError {
  return new MillraceError(
    "not-in-transaction",
    `The connection cannot be used: ${why}. Begin a transaction on a connection to the store's own database.`,
  );
}
