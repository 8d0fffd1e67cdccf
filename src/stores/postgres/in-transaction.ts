/**
 * Submit and settle on the caller's own connection, inside the transaction that is open there: what they write becomes true with the caller's
 * commit, or never. Only appends and the jobs' own rows and keys are touched, so a slow caller holds nobody up. Routes are made
 * beforehand on the store's own connection, because a new route's number is taken under a lock.
 *
 * The others are told by a NOTIFY inside the transaction: it goes out with the commit, and with nothing else.
 */
import { MillraceError } from "../../model/error.ts";
import type { NewJob } from "../../store/records.ts";
import type { TransactionStore } from "../../store/store.ts";
import { checkSettles, checkUnits } from "../../store/later-version.ts";
import type { Calls } from "./call.ts";
import { adaptConnection } from "./connection-adapter.ts";
import type { Connection } from "./connection-adapter.ts";
import type { Row, Value } from "./database.ts";
import { storeError } from "./errors.ts";
import { settleIfLeased } from "./settle.ts";
import { submit } from "./submit.ts";
import { packText } from "./text.ts";

export interface OwnStore {
  readonly calls: Calls;
  readonly where: string;
  readonly channel: string;
}

export function transactionStore(given: unknown, own: OwnStore): TransactionStore {
  const connection = adaptConnection(given);
  if (connection === null) throw refused("it is no connection of a driver that Millrace knows");
  if (connection.isOpen() === false) throw refused("no transaction is open on it");
  const inside = callsInside(connection, own);
  const checked = async (): Promise<void> => {
    if (!(await isInTransaction(connection, own))) throw refused("no transaction is open on it");
  };
  return {
    async submit(units) {
      checkUnits(units);
      await checked();
      await makeRoutes(
        own.calls,
        units.flatMap((unit) => unit.jobs),
      );
      const answers = await submit(inside, units);
      await announce(inside, own);
      return answers;
    },
    async settleIfLeased(settles) {
      checkSettles(settles);
      await checked();
      await makeRoutes(
        own.calls,
        settles.flatMap(({ effects }) => effects?.jobs ?? []),
      );
      const answers = await settleIfLeased(inside, settles);
      await announce(inside, own);
      return answers;
    },
  };
}

function callsInside(connection: Connection, { calls, where }: OwnStore): Calls {
  const run = async (text: string, values: readonly Value[]): Promise<Row[]> => {
    try {
      return await connection.run(text, values);
    } catch (error) {
      // Nothing is true before the caller's commit, so nothing of this is unknown.
      throw storeError(error, where, { isSent: false, isWrite: true });
    }
  };
  return {
    ...calls,
    now: () => calls.now(),
    commit: null,
    isInside: true,
    write: run,
    read: run,
    tell: () => undefined,
  };
}

/** The driver's own word where it has one; else two statements see the same transaction only if one is open. */
async function isInTransaction(connection: Connection, { where }: OwnStore): Promise<boolean> {
  const known = connection.isOpen();
  if (known !== null) return known;
  try {
    const first = await connection.run("SELECT pg_current_xact_id()::text", []);
    const second = await connection.run("SELECT pg_current_xact_id()::text", []);
    return first[0]?.[0] === second[0]?.[0];
  } catch (error) {
    throw storeError(error, where, { isSent: false, isWrite: true });
  }
}

async function makeRoutes(calls: Calls, jobs: readonly NewJob[]): Promise<void> {
  const routes = new Map(jobs.map(({ queue, name }) => [`${queue.length}:${queue}${name}`, { queue, name }]));
  const unknown = [...routes].filter(([key]) => !knownRoutes(calls).has(key));
  for (const [key, { queue, name }] of unknown) {
    await calls.write(`SELECT ${calls.schema}.route_number_v1($1, $2)`, [packText(queue), packText(name)]);
    knownRoutes(calls).add(key);
  }
}

const routesOf = new WeakMap<Calls, Set<string>>();
const knownMax = 10_000;

/** Routes never go away, so a route that was there once need not be asked for again. */
function knownRoutes(calls: Calls): Set<string> {
  const known = routesOf.get(calls);
  if (known !== undefined && known.size < knownMax) return known;
  const fresh = new Set<string>();
  routesOf.set(calls, fresh);
  return fresh;
}

async function announce(inside: Calls, { channel }: OwnStore): Promise<void> {
  await inside.write("SELECT pg_notify($1, $2)", [channel, '{"more":true}']);
}

function refused(why: string): MillraceError {
  return new MillraceError(
    "not-in-transaction",
    `The connection cannot be used: ${why}. Begin a transaction on a connection to the store's own database.`,
  );
}
