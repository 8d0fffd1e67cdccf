/**
 * pg-boss with its fastest documented settings: no scheduling and no supervision while it is measured, inserts of 1,000, and either
 * loops of fetch and complete by 1,000 or work() with batches of 1,000 that fetches on at once while its batches come full. To be quick for a
 * single job its queue asks for LISTEN/NOTIFY. It keeps finished jobs in place, and checks no fence.
 */
import { PgBoss } from "pg-boss";
import type { Contender, OpenOptions } from "./contender.ts";
import { bulkJobs } from "./contender.ts";
import { watchQueries } from "./driver-queries.ts";
import type { BenchInput } from "./input.ts";
import { groupKeyOf, perKeyMax, uniqueKeyOf } from "./job-kind.ts";
import type { JobKind } from "./job-kind.ts";

const queue = "bench";
const loops = 3;
const emptyMs = 20;

export async function openPgBossContender({
  place,
  mode,
  jobKind,
  isEager,
  isCounting,
}: OpenOptions): Promise<Contender> {
  const isQuiet = !isEager && !isCounting;
  let queries = 0;
  let ended = (_count: number): void => {};
  if (isCounting) watchQueries({ sent: () => (queries += 1) });
  else if (mode !== "fetch")
    watchQueries({
      answered: ({ text, values }) => {
        const [, ids] = values;
        if (text.includes("SET completed_on") && Array.isArray(ids)) ended(ids.length);
      },
    });
  const boss = new PgBoss({
    connectionString: place,
    ...(isQuiet ? { schedule: false, supervise: false } : { useListenNotify: true }),
  });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  await boss.createQueue(queue, { notify: !isQuiet, ...policyOf(jobKind) });
  const keyOf = (input: BenchInput) => keyOptionsOf(jobKind, input);
  return {
    durability: "strict",
    get storeCalls() {
      return queries;
    },
    enqueue: (input) => boss.send(queue, input as object, keyOf(input as BenchInput)),
    enqueueMany: (inputs) =>
      boss.insert(
        queue,
        inputs.map((input) => ({ data: input as object, ...keyOf(input as BenchInput) })),
      ),
    async work({ started, finished }) {
      if (mode === "fetch") return fetchLoops(boss, started, finished);
      ended = finished;
      const batch = isQuiet
        ? {
            batchSize: bulkJobs,
            localConcurrency: loops,
            burstWhenBatchFull: true,
            pollingIntervalSeconds: 0.5,
            ...(jobKind === "keyed" ? { groupConcurrency: perKeyMax } : {}),
          }
        : {};
      await boss.work(queue, batch, async (jobs) => {
        for (const { data } of jobs) started(data);
      });
      return { stop: () => boss.offWork(queue) };
    },
    async countFinished() {
      const { rows } = await boss
        .getDb()
        .executeSql("SELECT count(*)::int AS count FROM pgboss.job WHERE state = 'completed'", []);
      return (rows[0] as { count: number }).count;
    },
    finishAll: () => Promise.reject(new Error("pg-boss is not measured beside finished jobs.")),
    close: () => boss.stop({ graceful: false }),
  };
}

/** Under the policy exclusive a key is held until the end of its job, as Millrace's is; FIFO is a policy of its own. */
function policyOf(kind: JobKind): { policy?: "exclusive" | "key_strict_fifo" } {
  if (kind === "unique") return { policy: "exclusive" };
  return kind === "fifo" ? { policy: "key_strict_fifo" } : {};
}

function keyOptionsOf(kind: JobKind, input: BenchInput): { singletonKey?: string; group?: { id: string } } {
  if (kind === "unique") return { singletonKey: uniqueKeyOf(input) };
  if (kind === "fifo") return { singletonKey: groupKeyOf(kind, input) };
  return kind === "keyed" ? { group: { id: groupKeyOf(kind, input) } } : {};
}

/** Its fastest way documented: the caller fetches and completes by itself. */
function fetchLoops(
  boss: PgBoss,
  started: (input: unknown) => void,
  finished: (count: number) => void,
): { stop(): Promise<unknown> } {
  let isStopped = false;
  const loop = async (): Promise<void> => {
    while (!isStopped) {
      const jobs = await boss.fetch(queue, { batchSize: bulkJobs });
      if (jobs.length === 0) {
        await new Promise((resolve) => void setTimeout(resolve, emptyMs));
        continue;
      }
      for (const { data } of jobs) started(data);
      await boss.complete(
        queue,
        jobs.map(({ id }) => id),
      );
      finished(jobs.length);
    }
  };
  const running = Promise.all(Array.from({ length: loops }, loop));
  return {
    stop() {
      isStopped = true;
      return running;
    },
  };
}
