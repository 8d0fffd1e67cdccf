/**
 * OpenWorkflow on the backends of its own package, node:sqlite and postgres.js, with a worker of the slots given. The
 * handle of a run asks once a second whether it has ended, which would be all that is measured: its end is taken from
 * the backend's own answer to the write of it instead.
 */
import { OpenWorkflow } from "openworkflow";
import { BackendPostgres } from "openworkflow/postgres";
import { BackendSqlite } from "openworkflow/sqlite";
import type { StoreName } from "../figures.ts";
import type { BenchRuns, Contender, OpenOptions } from "../measure/contender.ts";
import { nowMs } from "../measure/clock.ts";
import { onlyRuns } from "./only-runs.ts";

type Backend = BackendPostgres | BackendSqlite;

export async function openOpenWorkflowContender(
  store: StoreName,
  { place }: OpenOptions,
): Promise<Contender> {
  const backend = store === "sqlite" ? BackendSqlite.connect(place) : await BackendPostgres.connect(place);
  return onlyRuns({ open: (concurrency) => openRuns(backend, concurrency), close: () => backend.stop() });
}

async function openRuns(backend: Backend, concurrency: number): Promise<BenchRuns> {
  /** By the number of a run: called when its end is in the database. */
  const waiting = new Map<number, () => void>();
  const times = new Map<number, readonly number[]>();
  const client = new OpenWorkflow({ backend: hearingEnds(backend, (number) => waiting.get(number)?.()) });
  const workflow = client.defineWorkflow<{ number: number; steps: number; isTimed: boolean }, number>(
    { name: "bench-steps" },
    async ({ input, step }) => {
      const timesMs: number[] = [];
      for (let at = 0; at < input.steps; at++) {
        const startMs = nowMs();
        await step.run({ name: `empty-${at}` }, () => null);
        timesMs.push(nowMs() - startMs);
      }
      if (input.isTimed) times.set(input.number, timesMs);
      return input.number;
    },
  );
  const worker = client.newWorker({ concurrency });
  await worker.start();
  let runs = 0;
  const run = async (steps: number, isTimed: boolean): Promise<number> => {
    const number = runs++;
    const ended = new Promise<void>((resolve) => waiting.set(number, resolve));
    await workflow.run({ number, steps, isTimed });
    await ended;
    waiting.delete(number);
    return number;
  };
  return {
    steps: async (steps) => void (await run(steps, false)),
    async timedSteps(steps) {
      const number = await run(steps, true);
      return times.get(number) ?? [];
    },
    close: () => worker.stop(),
  };
}

/** @param ended is called with the output of every run whose end has been written. */
function hearingEnds(backend: Backend, ended: (output: number) => void): Backend {
  const complete = backend.completeWorkflowRun.bind(backend);
  backend.completeWorkflowRun = async (params) => {
    const run = await complete(params);
    ended(run.output as number);
    return run;
  };
  return backend;
}
