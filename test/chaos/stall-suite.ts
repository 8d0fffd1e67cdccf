/**
 * A stall is over when it is over: whatever held the store up for longer than the leases are, within ten seconds after
 * it the workers are back at nine tenths of what they did before, and no renewal was sent while another one was open.
 * MILLRACE_STALL_MS makes the stalls longer (30000, say), MILLRACE_STALL_LEASE the leases (15s, say).
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { job } from "../../src/engine/definition.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { isLocked } from "../../src/store/operations.ts";
import type { Store } from "../../src/store/store.ts";
import { handler } from "../../src/worker/handler.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { until } from "../support/until.ts";

export const stallMs = Number(process.env["MILLRACE_STALL_MS"] ?? 5000);
const lease = process.env["MILLRACE_STALL_LEASE"] ?? "1500ms";
const backWithinMs = 10_000;
const windowMs = 1000;
/** So many jobs at once, each of so many milliseconds: what is done in a second does not hang on the machine. */
const slots = 10;
const workMs = 25;

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
    `after %s the workers are back in ten seconds${reason}`,
    { timeout: 60_000 + 2 * stallMs },
    async (_kind, open) => {
      const { store: own, stall } = await open();
      let [done, renewals, most] = [0, 0, 0];
      const store: Store = {
        ...own,
        async settleIfLeased(settles) {
          const answers = await own.settleIfLeased(settles);
          done += answers.filter((answer) => !isLocked(answer) && answer.kind === "ok").length;
          return answers;
        },
        async extendIfLeased(request) {
          most = Math.max(most, ++renewals);
          try {
            return await own.extendIfLeased(request);
          } finally {
            renewals -= 1;
          }
        },
      };
      const pace = async (): Promise<number> => {
        const [before, beganUs] = [done, nodePlatform.monotonicUs()];
        await sleep(windowMs);
        return ((done - before) * windowMs * 1000) / (nodePlatform.monotonicUs() - beganUs);
      };
      const mill = closeLater(millOn(store, { giveUp: "2m" }));
      const work = job<number>("work", { retry: { attempts: 100, backoff: 0 } });
      for (let sent = 0; sent < 20; sent++)
        await mill.enqueueMany(Array.from({ length: 1000 }, (_, at) => work.with(at)));
      await mill.work([handler(work, () => sleep(workMs))], { concurrency: slots, lease, shutdownGrace: 0 });
      await until("work is being done", () => done > 0);
      const usual = await pace();
      await stall();
      let last = 0;
      await until(
        "nine tenths are done again",
        async () => (last = await pace()) >= 0.9 * usual,
        backWithinMs - windowMs,
      ).catch((cause: unknown) => {
        throw new Error(`${Math.round(last)} of ${Math.round(usual)} per second`, { cause });
      });
      expect(most).toBeLessThanOrEqual(renewalsMax);
    },
  );
}
