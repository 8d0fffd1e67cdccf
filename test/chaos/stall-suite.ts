/**
 * A stall is over when it is over: whatever held the store up for longer than the leases are, afterwards the workers
 * have all their slots again and complete every job, also those that they held when it began; and no renewal was sent
 * while another one was open. MILLRACE_STALL_MS makes the stalls longer (30000, say), MILLRACE_STALL_LEASE the leases
 * (15s, say).
 */
import { duration } from "../../src/model/duration.ts";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { JobHandle } from "../../src/client/jobs/job-handle.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import type { Store } from "../../src/store/store.ts";
import { handler } from "../../src/worker/handler.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { hangMs, testMaxMs } from "../support/hang-ms.ts";
import { millOn } from "../support/mill-on.ts";
import { until } from "../support/until.ts";

export const stallMs = Number(process.env["MILLRACE_STALL_MS"] ?? 5000);
const lease = duration(process.env["MILLRACE_STALL_LEASE"] ?? "1500ms");
const slots = 10;
const workMs = 25;
/** At least as many as the slots can do in a stall that does not hold all work up. */
const jobs = Math.ceil((slots * stallMs) / workMs);
/** Enqueued after the stall, so that there is work for all slots however long it lasted. */
const laterJobs = 2 * slots;

/** Renewals that are open at once: one of leases, and one that looks for those of a lost claim. */
const renewalsMax = 2;

export interface StallSubject {
  readonly store: Store;
  /** Holds the store up for `stallMs`. */
  readonly stall: () => Promise<void>;
}

/** The worker's process, which is this one, stands still. The shell that stops it lets it go on, however it ends. */
export async function stopWorkers(): Promise<void> {
  const { pid } = process;
  const script = `trap 'kill -CONT ${pid}' EXIT; kill -STOP ${pid}; sleep ${stallMs / 1000}`;
  await once(spawn("sh", ["-c", script], { stdio: "ignore" }), "exit");
}

/**
 * @param kinds by name, how to open a store and to hold it up. @param skipped why these are not run; null where they
 * are.
 */
export function runStallSuite(
  kinds: Readonly<Record<string, () => Promise<StallSubject>>>,
  skipped: string | null = null,
): void {
  const closeLater = closeAfterEach();
  const reason = skipped === null ? "" : ` (skipped: ${skipped})`;

  test.skipIf(skipped !== null).each(Object.entries(kinds))(
    `after %s the workers have all their slots again and complete every job${reason}`,
    { timeout: testMaxMs + 2 * stallMs },
    async (_kind, open) => {
      const { store: own, stall } = await open();
      let [renewals, most] = [0, 0];
      const store: Store = {
        ...own,
        async extendIfLeased(request) {
          most = Math.max(most, ++renewals);
          try {
            return await own.extendIfLeased(request);
          } finally {
            renewals -= 1;
          }
        },
      };
      const mill = closeLater(millOn(store, { giveUp: hangMs }));
      const work = job<number>("work", { retry: { attempts: 100, backoff: 0 } });
      const enqueue = (from: number, to: number): Promise<readonly JobHandle[]> =>
        mill.enqueueMany(Array.from({ length: to - from }, (_, at) => work.with(from + at)));
      const handles = [...(await enqueue(0, jobs))];
      const started = new Set<number>();
      let running = 0;
      /** Set when the stall is over: then each run waits until all slots run at once. */
      let allRun: PromiseWithResolvers<void> | null = null;
      let haveAllRun = false;
      const run = async (input: number): Promise<void> => {
        started.add(input);
        running += 1;
        if (running === slots && allRun !== null) {
          haveAllRun = true;
          allRun.resolve();
        }
        await (allRun === null ? sleep(workMs) : allRun.promise);
        running -= 1;
      };
      await mill.work([handler(work, ({ input }) => run(input))], {
        ...{ concurrency: slots, lease, shutdownGrace: 0 },
      });
      await until("work is being done", () => started.size > slots);
      await stall();
      allRun = Promise.withResolvers();
      handles.push(...(await enqueue(jobs, jobs + laterJobs)));
      await until("all slots run at once", () => haveAllRun);
      const results = handles.map((handle) => handle.result({ timeout: hangMs }));
      await Promise.all(results);
      expect(started.size).toBe(jobs + laterJobs);
      expect(most).toBeLessThanOrEqual(renewalsMax);
    },
  );
}
