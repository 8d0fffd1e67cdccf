/**
 * Millions of finished jobs, written by SQL: one job is worked off, and its row in the history is the pattern for the
 * others. They ended over the past days, so that they lie in the partitions in which they would lie.
 */
import pg from "pg";
import type { Contender } from "./contender.ts";
import { makeInput } from "./input.ts";

const dayMs = 86_400_000;
/** Within the time that finished jobs are kept. */
const days = 6;
const chunk = 500_000;

/** Columns of the history that differ from job to job; `n` numbers the jobs, `at` is when one ended. */
const differing: Readonly<Record<string, string>> = {
  seq: "n",
  id: "'0' || lpad(n::text, 20, '0')",
  created_at: "at - 20",
  due_at: "at - 20",
  rank: "at - 20",
  claimed_at: "at - 10",
  ended_at: "at",
};

export async function fillFinished(contender: Contender, place: string, count: number): Promise<void> {
  await finishOne(contender);
  const client = new pg.Client({ connectionString: place });
  await client.connect();
  try {
    const { rows } = await client.query<{ name: string }>(
      "SELECT attname AS name FROM pg_attribute WHERE attrelid = 'millrace.history'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
    );
    const names = rows.map(({ name }) => name);
    const values = names.map((name) => differing[name] ?? `p.${name}`);
    for (let ago = days; ago >= 0; ago -= 3) {
      const at = `(extract(epoch FROM now()) * 1000)::int8 - ${ago * dayMs}`;
      await client.query(`SELECT millrace.make_partitions_v1(${at})`);
    }
    // The pattern keeps its place at the head; numbers of new jobs begin behind. Rows come with their count, or an
    // audit in between would add it too.
    for (let from = 2; from <= count; from += chunk) {
      const to = Math.min(count, from + chunk - 1);
      await client.query("BEGIN");
      await client.query(
        `INSERT INTO millrace.history (${names.join(", ")})
         SELECT ${values.join(", ")} FROM (SELECT * FROM millrace.history ORDER BY seq LIMIT 1) p,
           LATERAL (SELECT n, p.ended_at - $1::int8 * ($3::int8 - n) / $3::int8 - 1000 AS at FROM generate_series($2::int8, $4::int8) n) s`,
        [days * dayMs, from, count, to],
      );
      await client.query(
        "INSERT INTO millrace.state_count SELECT route, state, $1 FROM millrace.history ORDER BY seq LIMIT 1",
        [to - from + 1],
      );
      await client.query("COMMIT");
    }
    await client.query("SELECT setval('millrace.job_seq', $1)", [count + 1]);
  } finally {
    await client.end();
  }
}

async function finishOne(contender: Contender): Promise<void> {
  await contender.enqueue(makeInput(0));
  const { promise, resolve } = Promise.withResolvers<void>();
  const workers = await contender.work({ concurrency: 1, started: () => {}, finished: () => resolve() });
  await promise;
  await workers.stop();
}
