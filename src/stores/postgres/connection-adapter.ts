/**
 * The caller's own connection, whichever driver it comes from: told by its shape and used only to run one statement with parameters. Each
 * adapter says whether a transaction is open where its driver knows, else null.
 */
import type { Row, Value } from "./database.ts";
import { rawTypes } from "./database.ts";
import type { PgClient } from "./driver.ts";

export interface Connection {
  run(text: string, values: readonly Value[]): Promise<Row[]>;
  isOpen(): boolean | null;
}

export function adaptConnection(given: unknown): Connection | null {
  if (isPgClient(given)) return pgConnection(given);
  return null;
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
