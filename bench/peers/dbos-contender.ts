/**
 * DBOS Transact with its system database alone: no queue, no tracing, no Conductor, a silent logger. A workflow that is
 * started directly runs at once in the process that starts it, so there is no worker and no limit of slots; its handle
 * waits for it in memory, behind the write of its end.
 */
import { DBOS } from "@dbos-inc/dbos-sdk";
import type { DLogger } from "@dbos-inc/dbos-sdk";
import type { Contender, OpenOptions } from "../measure/contender.ts";
import { nowMs } from "../measure/clock.ts";
import { onlyRuns } from "./only-runs.ts";

const silent: DLogger = { error() {}, warn() {}, info() {}, debug() {} };

export async function openDbosContender({ place }: OpenOptions): Promise<Contender> {
  const workflow = DBOS.registerWorkflow(emptySteps, { name: "bench-steps" });
  DBOS.setConfig({ name: "bench", applicationVersion: "1", systemDatabaseUrl: place, logger: silent });
  await DBOS.launch();
  const run = async (steps: number, isTimed: boolean): Promise<readonly number[]> => {
    const handle = await DBOS.startWorkflow(workflow)(steps, isTimed);
    return (await handle.getResult()) ?? [];
  };
  return onlyRuns({
    async open() {
      return {
        steps: async (steps) => void (await run(steps, false)),
        timedSteps: (steps) => run(steps, true),
        close: async () => {},
      };
    },
    close: () => DBOS.shutdown(),
  });
}

async function emptySteps(steps: number, isTimed: boolean): Promise<number[] | null> {
  const timesMs: number[] = [];
  for (let at = 0; at < steps; at++) {
    const startMs = nowMs();
    await DBOS.runStep(async () => null, { name: "empty" });
    timesMs.push(nowMs() - startMs);
  }
  return isTimed ? timesMs : null;
}
