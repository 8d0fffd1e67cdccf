/**
 * pg-boss with its fastest documented settings: no scheduling and no supervision while it is measured, inserts of
 * 1,000, and either loops of fetch and complete by 1,000 or work() with batches of 1,000 that fetches on at once while
 * its batches come full. To be quick for a single job its queue asks for LISTEN/NOTIFY. It keeps finished jobs in
 * place, and checks no fence.
 */
import { randomUUID } from "node:crypto";
import { PgBoss } from "pg-boss";
import type { FlowJob } from "pg-boss";
import type { BenchFlows, Contender, OpenOptions } from "../measure/contender.ts";
import { bulkJobs } from "../measure/contender.ts";
import { watchQueries } from "./driver-queries.ts";
import { makeInput } from "../measure/input.ts";
import type { BenchInput } from "../measure/input.ts";
import { groupKeyOf, perKeyMax, uniqueKeyOf } from "../measure/job-kind.ts";
import type { JobKind } from "../measure/job-kind.ts";

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
  const { flows, heard } = openPgBossFlows(boss);
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
      if (mode === "fetch") return fetchLoops(boss, started, (ids) => (finished(ids.length), heard(ids)));
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
    openFlows: () => Promise.resolve(flows),
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
  finished: (ids: readonly string[]) => unknown,
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
      const ids = jobs.map(({ id }) => id);
      await boss.complete(queue, ids);
      await finished(ids);
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

/**
 * Its flows are jobs that wait for others by name. What waits is freed by a poll, once a second at best; `resolveFlow`
 * is the pass of it that an application asks for, here behind every batch that has ended.
 */
function openPgBossFlows(boss: PgBoss): {
  readonly flows: BenchFlows;
  readonly heard: (ids: readonly string[]) => Promise<void>;
} {
  const waiting = new Map<string, () => void>();
  const node = (ref: string, dependsOn: readonly string[] = []): FlowJob => ({
    ...{ ref, name: queue, data: makeInput(0) },
    ...(dependsOn.length === 0 ? {} : { dependsOn: [...dependsOn] }),
  });
  const fanOf = (width: number): readonly FlowJob[] => {
    const middle = Array.from({ length: width }, (_, at) => node(`n${at}`, ["first"]));
    return [
      node("first"),
      ...middle,
      node(
        "last",
        Array.from({ length: width }, (_, at) => `n${at}`),
      ),
    ];
  };
  const run = async (jobs: readonly FlowJob[]): Promise<void> => {
    // Known before the flow is there, because its last job may end before its submit is answered.
    const id = randomUUID();
    const ended = new Promise<void>((resolve) => waiting.set(id, resolve));
    const last = jobs.at(-1) as FlowJob;
    await boss.flow([...jobs.slice(0, -1), { ...last, options: { id } }]);
    await ended;
  };
  return {
    heard: async (ids) => {
      for (const id of ids) waiting.get(id)?.();
      for (const id of ids) waiting.delete(id);
      if (waiting.size > 0) await boss.resolveFlow();
    },
    flows: {
      chain: (nodes) => {
        const chain = Array.from({ length: nodes }, (_, at) =>
          node(`n${at}`, at === 0 ? [] : [`n${at - 1}`]),
        );
        return run(chain);
      },
      fan: (width) => run(fanOf(width)),
      submit: async (nodes) => void (await boss.flow([...fanOf(nodes - 2)])),
      close: () => Promise.resolve(),
    },
  };
}
