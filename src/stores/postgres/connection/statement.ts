/**
 * Runs one statement on one connection, by the driver's own query: values are sent as texts, and rows come as the texts
 * that Postgres sent.
 *
 * On a connection that leads straight to a server process the statement has a name, so it is parsed and planned once
 * for all calls. Through a pooler each call may reach another server process, which does not know the name. The first
 * call finds out which of the two it is by comparing process numbers, because a pooler gives its clients numbers of its
 * own.
 */
import type { Row, Value } from "./database.ts";
import type { PgClient, PgListener, PgQuery } from "./driver.ts";
import { valueText } from "../functions/packed-values.ts";
import { sql } from "../../../store/sql.ts";

const names = new Map<string, string>();
/** Whether a connection leads straight to the server. */
const direct = new WeakMap<PgClient, boolean>();

/** The statements that each connection has run. */
const done = new WeakMap<PgClient, Set<string>>();

/** Every value as the text that Postgres sent. */
export const rawTypes = { getTypeParser: () => (value: string) => value };

export async function runStatement(
  client: PgClient,
  text: string,
  values: readonly Value[],
  timeoutMs: number,
): Promise<Row[]> {
  const ask = async (query: PgQuery): Promise<Row[]> => {
    const options = { rowMode: "array", types: rawTypes, query_timeout: timeoutMs } as const;
    return (await client.query({ ...query, ...options })).rows as Row[];
  };
  // The driver must not convert the values: it would take a list that does not hold only texts for a list of another
  // type.
  const given = values.map(valueText);
  if (!direct.has(client)) {
    const { processID = null } = client;
    const isServer =
      processID !== null && Number((await ask({ text: pidText, values: [] }))[0]?.[0]) === processID;
    direct.set(client, isServer);
  }
  if (!isDirect(client)) return ask({ text, values: given });
  const rows = await ask({ text, values: given, name: nameOf(text) });
  let texts = done.get(client);
  if (texts === undefined) done.set(client, (texts = new Set()));
  texts.add(text);
  return rows;
}

/**
 * Whether the server process of this connection has run this statement. Through a pooler the answer is always yes,
 * because it makes no difference there.
 */
export function hasRun(client: PgClient, text: string): boolean {
  return done.get(client)?.has(text) ?? direct.get(client) === false;
}

export function isDirect(client: PgClient): boolean {
  return direct.get(client) === true;
}

const pidText = "SELECT pg_backend_pid()";

/** Called after an error that says that the server process does not know a name (isNameUnknown). */
export function clearNames(client: PgClient): void {
  direct.set(client, false);
}

function nameOf(text: string): string {
  let name = names.get(text);
  if (name === undefined) {
    // The name contains the function that is called, for operators who look at what a connection runs.
    name = `millrace_${names.size + 1}${/\.\w+(?=\()/.exec(text)?.[0].replace(".", "_") ?? ""}`;
    names.set(text, name);
  }
  return name;
}

/**
 * Cancels only if the backend still works on this very call: its process number may belong to another session by now.
 */
const cancelText = sql`SELECT pg_cancel_backend(pid) FROM pg_catalog.pg_stat_activity
  WHERE pid = $1 AND usename = current_user AND state = 'active' AND left(query, 200) = left($2, 200)`;
const answerMaxMs = 10_000;

/**
 * A call whose answer did not come in time goes on at the server and holds its locks, although its connection is closed
 * here: a backend that waits for a lock does not notice that its client has gone. So the call is cancelled there, over
 * a connection outside the pool, because all connections of the pool may be stuck. A call that cannot be cancelled ends
 * by itself.
 */
export async function cancelCall(connect: () => PgListener, pid: number, text: string): Promise<void> {
  const client = connect();
  client.on("error", () => undefined);
  try {
    await client.connect();
    await client.query({ text: cancelText, values: [pid, text], query_timeout: answerMaxMs });
  } finally {
    await client.end();
  }
}
