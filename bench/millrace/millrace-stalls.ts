/**
 * A process whose workers stand still for longer than their leases are, and go on: what the work `stall` measures. The
 * clock runs from the moment they go on until every slot runs a job that began after it.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import { handler } from "../../src/worker/handler.ts";
import { nowMs } from "../measure/clock.ts";
import type { Stalls } from "../measure/contender.ts";

const slots = 10;
const lease = "1s";
const stallSeconds = 2;

/** Runs that begin in a phase last until it ends. */
class Phase {
  readonly allRun = Promise.withResolvers<void>();
  readonly ended = Promise.withResolvers<void>();
  #running = 0;

  async run(): Promise<void> {
    this.#running += 1;
    if (this.#running === slots) this.allRun.resolve();
    await this.ended.promise;
  }
}

export async function openMillraceStalls(mill: Millrace): Promise<Stalls> {
  const work = job<number>("work", { queue: "stalls", retry: { attempts: 100, backoff: 0 } });
  let phase = new Phase();
  const workers = await mill.work([handler(work, () => phase.run())], { queues: { stalls: slots }, lease });
  return {
    async stallOne() {
      const before = (phase = new Phase());
      await mill.enqueueMany(Array.from({ length: 3 * slots }, (_, at) => work.with(at)));
      await before.allRun.promise;
      await standStill();
      const overMs = nowMs();
      const after = (phase = new Phase());
      before.ended.resolve();
      await after.allRun.promise;
      const tookMs = nowMs() - overMs;
      after.ended.resolve();
      return tookMs;
    },
    close: () => workers.stop(),
  };
}

/** The shell that stops this process lets it go on, however it ends. */
async function standStill(): Promise<void> {
  const { pid } = process;
  const script = `trap 'kill -CONT ${pid}' EXIT; kill -STOP ${pid}; sleep ${stallSeconds}`;
  await once(spawn("sh", ["-c", script], { stdio: "ignore" }), "exit");
}
