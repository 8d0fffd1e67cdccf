/**
 * One call on one connection, by the driver's own query: values go as texts and rows come as the texts that Postgres
 * sent.
 *
 * On a connection that leads straight to a server process the statement has a name, so it is read and planned once for
 * all calls. Behind a pooler each call may meet another process, to which the name says nothing. Who is behind it is
 * asked, not believed: a pooler gives its clients a process number of its own.
 */
import type { Row, Value } from "./database.ts";
import type { PgClient, PgListener, PgQuery } from "./driver.ts";
import { valueText } from "../functions/packed-values.ts";

const names = new Map<string, string>();
/** Whether a connection leads straight to the server. */
const direct = new WeakMap<PgClient, boolean>();

/** What each of them has run. */
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
  // Not in the driver's hands, where a list that holds something else than texts would be taken for another one.
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

/** Whether the server process behind it has run this statement; behind a pooler it makes no difference. */
export function hasRun(client: PgClient, text: string): boolean {
  return done.get(client)?.has(text) ?? direct.get(client) === false;
}

export function isDirect(client: PgClient): boolean {
  return direct.get(client) === true;
}

const pidText = "SELECT pg_backend_pid()";

/** After an error that says that the server process does not know a name (isNameUnknown). */
export function forgetNames(client: PgClient): void {
  direct.set(client, false);
}

function nameOf(text: string): string {
  let name = names.get(text);
  if (name === undefined) {
    // With the function that it calls: whoever looks at a connection wants to know what goes over it.
    name = `millrace_${names.size + 1}${/\.\w+(?=\()/.exec(text)?.[0].replace(".", "_") ?? ""}`;
    names.set(text, name);
  }
  return name;
}

/** Only while the backend still works on this very call: its number may have gone to somebody else. */
const cancelText = `SELECT pg_cancel_backend(pid) FROM pg_catalog.pg_stat_activity
  WHERE pid = $1 AND usename = current_user AND state = 'active' AND left(query, 200) = left($2, 200)`;
const answerMaxMs = 10_000;

/**
 * A call whose answer did not come in time goes on at the server, with whatever it holds or waits for, although its
 * connection is gone here: a backend that waits for a lock does not look at its client. So it is cancelled there, over
 * a connection of its own, because those of the pool may all be stuck. What cannot be cancelled ends by itself.
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
