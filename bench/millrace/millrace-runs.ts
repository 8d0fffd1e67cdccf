/** Durable runs of Millrace for the bench. */
import { z } from "zod";
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import { handler } from "../../src/worker/handler.ts";
import type { BenchRuns } from "../measure/contender.ts";
import { nowMs, waitMs } from "../measure/clock.ts";

const durable = { version: 1 };
const stepsJob = job<{ steps: number; isTimed: boolean }, number[] | null>("bench-steps", { durable });
const signals = { go: z.undefined() };
const waitJob = job<{ rounds: number }, null>("bench-wait", { durable, signals });
const callJob = job<null, number>("bench-invoke", { durable });
const childJob = job<null, null>("bench-child");
const replayJob = job<{ steps: number }, number>("bench-replay", { durable, signals });

const batch = 10_000;

export async function openMillraceRuns(mill: Millrace, concurrency: number): Promise<BenchRuns> {
  /** By the run: called when its handler goes on behind a wait. */
  const resumed = new Map<string, () => void>();
  let replayedMs = 0;
  const worker = await mill.work(
    [
      handler(stepsJob, async ({ input, step }) => {
        const timesMs: number[] = [];
        for (let at = 0; at < input.steps; at++) {
          const startMs = nowMs();
          await step.run("empty", () => null);
          timesMs.push(nowMs() - startMs);
        }
        return input.isTimed ? timesMs : null;
      }),
      handler(waitJob, async ({ id, input, step }) => {
        for (let round = 0; round < input.rounds; round++) {
          await step.waitFor("go");
          // Once per round: an earlier one has been taken out.
          const tell = resumed.get(`${id}:${round}`);
          resumed.delete(`${id}:${round}`);
          tell?.();
        }
        return null;
      }),
      handler(childJob, async () => null),
      handler(callJob, async ({ step }) => {
        const startMs = nowMs();
        await step.invoke(childJob, null);
        return nowMs() - startMs;
      }),
      handler(replayJob, async ({ input, step }) => {
        const startMs = nowMs();
        for (let at = 0; at < input.steps; at++) await step.run("empty", () => null);
        replayedMs = nowMs() - startMs;
        await step.waitFor("go");
        return 0;
      }),
    ],
    { concurrency },
  );
  const whenResumed = (id: string, round: number): Promise<void> =>
    new Promise((resolve) => resumed.set(`${id}:${round}`, resolve));
  const untilSuspended = async (id: string): Promise<void> => {
    while ((await mill.jobs.get(id))?.state !== "suspended")
      await new Promise((resolve) => setTimeout(resolve, 1));
  };
  const suspendedRuns = async (): Promise<number> => (await mill.jobs.counts())["default"]?.suspended ?? 0;
  return {
    async steps(steps) {
      await (await mill.enqueue(stepsJob, { steps, isTimed: false })).result();
    },
    async timedSteps(steps) {
      return (await (await mill.enqueue(stepsJob, { steps, isTimed: true })).result()) ?? [];
    },
    async signalDelay() {
      const { id } = await mill.enqueue(waitJob, { rounds: 1 });
      await untilSuspended(id);
      const told = whenResumed(id, 0);
      const startMs = nowMs();
      await mill.signal(id, "go");
      await told;
      return nowMs() - startMs;
    },
    async invokeTime() {
      // The handler is called again behind the wait, so its own clock would say nothing.
      const startMs = nowMs();
      await (await mill.enqueue(callJob, null)).result();
      return nowMs() - startMs;
    },
    async resumes(count, rounds) {
      const runs = await mill.enqueueMany(Array.from({ length: count }, () => waitJob.with({ rounds })));
      await untilSuspended(runs.at(-1)?.id ?? "");
      const startMs = nowMs();
      for (let round = 0; round < rounds; round++) {
        const told = runs.map(({ id }) => whenResumed(id, round));
        await Promise.all(runs.map(({ id }) => mill.signal(id, "go")));
        await Promise.all(told);
      }
      await Promise.all(runs.map((run) => run.result()));
      return (count * rounds * 1000) / (nowMs() - startMs);
    },
    async suspend(count) {
      const wanted = (await suspendedRuns()) + count;
      for (let left = count; left > 0; left -= batch)
        await mill.enqueueMany(
          Array.from({ length: Math.min(left, batch) }, () => waitJob.with({ rounds: 1 })),
        );
      while ((await suspendedRuns()) < wanted) await waitMs(50);
    },
    async replay(steps) {
      const run = await mill.enqueue(replayJob, { steps });
      await untilSuspended(run.id);
      replayedMs = 0;
      await mill.signal(run.id, "go");
      await run.result();
      return replayedMs;
    },
    async close() {
      await worker.stop();
    },
  };
}
