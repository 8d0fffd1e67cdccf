/**
 * Submit, settle and slips on the caller's own connection, inside the transaction that is open there: what they write
 * becomes true with the caller's commit, or never. The very same code as in the store's own transactions, with
 * nothing remembered between calls, because the caller may still roll back. Hints go out after the commit, by the
 * wake file.
 */
import { realpathSync } from "node:fs";
import { MillraceError } from "../../../model/error.ts";
import type { TransactionStore } from "../../../store/store.ts";
import { emptyHints } from "../../../store/watch/hints.ts";
import type { WakeFile } from "../feed/wake-file.ts";
import { storeNow } from "../jobs/clock.ts";
import { statementsOf } from "./connection.ts";
import type { Connection, Statements } from "./connection.ts";
import { storeError } from "./errors.ts";
import type { FileIdentity } from "./file-identity.ts";
import { clearUnreadable, mayRetry, retriesMax } from "../upkeep/retry-unreadable.ts";
import type { Searches } from "../upkeep/retry-unreadable.ts";
import { settleIfLeased } from "../runs/settle.ts";
import { beginStep, beginCommit, endStep, flushCommit } from "./transaction.ts";
import type { Step } from "./transaction.ts";
import { commitSlip } from "../journals/slips.ts";
import type { StoreClock } from "../../../store/store-clock.ts";
import { submit } from "../jobs/submit.ts";

export interface OwnFile {
  readonly path: string;
  readonly epoch: number;
  readonly clock: StoreClock;
  readonly identity: FileIdentity | null;
  readonly searches: Searches;
  /** Null for a store in memory. */
  readonly wakeFile: WakeFile | null;
}

export function transactionStore(given: unknown, file: OwnFile): TransactionStore {
  const connection = checkConnection(given, file);
  const run = async <A>(operate: (step: Step) => A): Promise<A> => {
    if (!isInTransaction(connection)) throw refused("its transaction is over");
    file.identity?.check(file.clock.now());
    file.wakeFile?.wakeAfter(connection, () => !isInTransaction(connection));
    return runInside(connection, file, operate);
  };
  return {
    async submit(units) {
      return run((step) => submit(step, units));
    },
    async settleIfLeased(settles) {
      return run((step) => settleIfLeased(step, settles));
    },
    async commitSlip(lease, slip) {
      return run((step) => commitSlip(step, lease, slip));
    },
  };
}

function runInside<A>(connection: Connection, file: OwnFile, operate: (step: Step) => A, retries = 0): A {
  try {
    return runStep(connection, file, operate);
  } catch (error) {
    if (!mayRetry(error) || retries === retriesMax) throw storeError(error, file.path);
    const mayRun = runStep(connection, file, ({ commit }) =>
      clearUnreadable(commit, error, retries > 0, file.searches),
    );
    if (!mayRun) throw storeError(error, file.path);
    return runInside(connection, file, operate, retries + 1);
  }
}

function runStep<A>(connection: Connection, { clock, epoch }: OwnFile, operate: (step: Step) => A): A {
  const statements = statementsOf(connection);
  statements("SAVEPOINT millrace_call").run();
  try {
    const now = storeNow(statements, clock.now());
    clock.observe(now);
    const commit = beginCommit({ statements, routes: new Map(), epoch, now });
    const step = beginStep(commit);
    const answer = operate(step);
    endStep(step, emptyHints());
    flushCommit(commit);
    statements("RELEASE millrace_call").run();
    return answer;
  } catch (error) {
    if (isInTransaction(connection)) {
      statements("ROLLBACK TO millrace_call").run();
      statements("RELEASE millrace_call").run();
    }
    throw error;
  }
}

function checkConnection(callers: unknown, file: OwnFile): Connection {
  const given = connectionBeneath(callers);
  if (!isConnection(given)) throw refused("it is no connection of node:sqlite or better-sqlite3");
  if (file.wakeFile === null) throw refused("a store in memory cannot be reached from another connection");
  if (!isInTransaction(given)) throw refused("no transaction is open on it");
  if (mainFile(statementsOf(given)) !== file.path) throw refused(`its main database is not ${file.path}`);
  return given;
}

/**
 * Drizzle keeps the connection in its session, so its `db` and `tx` are taken. Kysely, Knex and Prisma keep theirs to
 * themselves: they are refused by name, with what to pass instead.
 */
function connectionBeneath(given: unknown): unknown {
  if ((typeof given !== "object" && typeof given !== "function") || given === null) return given;
  if ("withoutPlugins" in given && "executeQuery" in given)
    throw instead(
      "Kysely",
      "pass the database that you gave to its SqliteDialect, while its transaction is open",
    );
  if ("raw" in given && "client" in given)
    throw instead("Knex", "pass the connection of its transaction: await trx.client.acquireConnection()");
  if ("$queryRawUnsafe" in given)
    throw instead(
      "Prisma",
      "enqueue after its commit with an id of your own, which makes a repeated enqueue harmless",
    );
  return (given as { session?: { client?: unknown } }).session?.client ?? given;
}

function instead(library: string, advice: string): MillraceError {
  return new MillraceError(
    "not-in-transaction",
    `${library} keeps its connection to itself, so its transaction cannot be used. Instead, ${advice}.`,
  );
}

function refused(why: string): MillraceError {
  return new MillraceError(
    "not-in-transaction",
    `The connection cannot be used: ${why}. Begin a transaction on a connection to the store's own file.`,
  );
}

function isConnection(given: unknown): given is Connection {
  if (typeof given !== "object" || given === null) return false;
  const { prepare, exec } = given as Partial<Connection>;
  return typeof prepare === "function" && typeof exec === "function";
}

function isInTransaction(connection: Connection): boolean {
  const { isTransaction, inTransaction } = connection as { isTransaction?: unknown; inTransaction?: unknown };
  return isTransaction === true || inTransaction === true;
}

function mainFile(statements: Statements): string | null {
  const rows = statements("PRAGMA database_list").all() as [number: number, name: string, file: string][];
  const file = rows.find((row) => row[1] === "main")?.[2] ?? "";
  try {
    return file === "" ? null : realpathSync(file);
  } catch {
    return null;
  }
}
