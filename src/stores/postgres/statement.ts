/**
 * One call on one connection, as the driver takes a query object of somebody else's. The driver's own one copies its options, asks what the columns
 * are, finds a reader for each and makes a result of it all; a call of the store wants its rows as texts and nothing more.
 *
 * On a connection that leads straight to a server process the statement has a name, so it is read and planned once for all calls. Behind a pooler
 * each call may meet another process, to which the name says nothing. Who is behind it is asked, not believed: a pooler gives its
 * clients a process number of its own.
 */
import type { Row, Value } from "./database.ts";
import type { PgClient, PgConnection, PgStatement } from "./driver.ts";
import { valueText } from "./text.ts";

const names = new Map<string, string>();
/** Whether a connection leads straight to the server. */
const direct = new WeakMap<PgClient, boolean>();

/** Every value as the text that Postgres sent. */
export const rawTypes = { getTypeParser: () => (value: string) => value };

export async function runStatement(
  client: PgClient,
  text: string,
  values: readonly Value[],
  timeoutMs: number,
): Promise<Row[]> {
  if (!takesStatements(client)) {
    const options = { rowMode: "array", types: rawTypes, query_timeout: timeoutMs } as const;
    return (await client.query({ text, values, ...options })).rows as Row[];
  }
  if (!direct.has(client)) {
    const [row] = await send(client, "SELECT pg_backend_pid()", [], null, timeoutMs);
    direct.set(client, Number(row?.[0]) === client.processID);
  }
  return send(client, text, values, direct.get(client) === true ? nameOf(text) : null, timeoutMs);
}

/** After an error that says so: the server process does not have what this connection believes to have prepared there. */
export function forgetNames(client: PgClient): void {
  direct.set(client, false);
}

/** Not those of other kinds of client, nor one that answers several queries at once. */
function takesStatements({ connection, pipeline }: PgClient): boolean {
  return typeof connection?.parse === "function" && pipeline !== true;
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

function send(
  client: PgClient,
  text: string,
  values: readonly Value[],
  name: string | null,
  timeoutMs: number,
): Promise<Row[]> {
  return new Promise((resolve, reject) => {
    client.query(
      new Statement(text, values, name ?? "", timeoutMs, (error, rows) =>
        error === null ? resolve(rows) : reject(error),
      ),
    );
  });
}

class Statement implements PgStatement {
  /** Read by the driver, which notes the name as prepared once the server says so. */
  readonly name: string;
  readonly text: string;
  readonly query_timeout: number;
  callback: (error: Error | null, rows: Row[]) => void;
  readonly #values: readonly (string | null)[];
  readonly #rows: Row[] = [];
  #failure: Error | null = null;

  constructor(
    text: string,
    values: readonly Value[],
    name: string,
    timeoutMs: number,
    callback: Statement["callback"],
  ) {
    this.text = text;
    this.name = name;
    this.query_timeout = timeoutMs;
    this.callback = callback;
    // Not in the driver's hands, where a value that cannot be a text would break the connection.
    this.#values = values.map(textOf);
  }

  submit(connection: PgConnection): void {
    const { name, text } = this;
    connection.stream.cork?.();
    try {
      if (name === "" || connection.parsedStatements[name] !== text) connection.parse({ name, text });
      connection.bind({ statement: name, values: this.#values });
      connection.execute({});
    } catch (error) {
      // Too large to be put together: nothing is executed, and the answer to the sync ends the turn.
      this.#failure = error as Error;
    }
    connection.sync();
    connection.stream.uncork?.();
  }

  handleDataRow({ fields }: { readonly fields: Row }): void {
    this.#rows.push(fields);
  }

  handleReadyForQuery(): void {
    this.callback(this.#failure, this.#rows);
  }

  handleError(error: Error): void {
    this.callback(error, []);
  }

  handleRowDescription(): void {}
  handleCommandComplete(): void {}
  handlePortalSuspended(): void {}
  handleEmptyQuery(): void {}
}

function textOf(value: Value): string | null {
  return value === null || typeof value === "string" ? value : valueText(value);
}
