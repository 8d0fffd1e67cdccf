/**
 * A call whose answer did not come in time goes on at the server, with whatever it holds or waits for, although its
 * connection is gone here: a backend that waits for a lock does not look at its client. So it is cancelled there, over a
 * connection of its own, because those of the pool may all be stuck. What cannot be cancelled ends by itself.
 */
import type { PgListener } from "./driver.ts";

/** Only while the backend still works on this very call: its number may have gone to somebody else. */
const cancelText = `SELECT pg_cancel_backend(pid) FROM pg_catalog.pg_stat_activity
  WHERE pid = $1 AND usename = current_user AND state = 'active' AND left(query, 200) = left($2, 200)`;
const answerMaxMs = 10_000;

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
