/**
 * A job that holds the only permit of a limit, with another behind it that waits for the permit: what the work `permit`
 * measures.
 */
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import type { JobDefinition } from "../../src/engine/submit/job-definition.ts";
import type { Limit } from "../../src/engine/limits/limit-definition.ts";
import { handler } from "../../src/worker/handler.ts";
import { nowMs, waitMs } from "../measure/clock.ts";
import type { Permits } from "../measure/contender.ts";
import type { BenchInput } from "../measure/input.ts";

/** So long the next job waits at the gate: both processes have fallen idle, and at no fixed interval. */
const pauseMs = 15;
const strayMs = 10;

/** @param next the job that another process works on. */
export async function openMillracePermits(
  mill: Millrace,
  next: JobDefinition<BenchInput, BenchInput, void, void>,
  only: Limit,
): Promise<Permits> {
  const holding = job<null, void>("holding", { queue: "holding", limits: [only] });
  let began = (_letGo: () => void): void => {};
  let ended = (_atMs: number): void => {};
  const workers = await mill.work(
    [
      handler(holding, async () => {
        const { promise, resolve } = Promise.withResolvers<void>();
        began(resolve);
        await promise;
        ended(nowMs());
      }),
    ],
    { queues: { holding: 1 } },
  );
  return {
    async pass(input) {
      const running = new Promise<() => void>((resolve) => void (began = resolve));
      const end = new Promise<number>((resolve) => void (ended = resolve));
      await mill.enqueue(holding, null);
      const letGo = await running;
      await mill.enqueue(next, input);
      await waitMs(pauseMs + Math.random() * strayMs);
      letGo();
      return end;
    },
    async close() {
      await workers.stop();
    },
  };
}
