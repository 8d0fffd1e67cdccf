/** What the demo enqueues, and when: a little of everything, as a busy shop would. */
import type { Millrace } from "../../client/millrace.ts";
import { chargeCard, exportAll, monthlyReport, reindex, reminder, welcomeEmail } from "./demo-jobs.ts";

const tickMs = 150;
const months = ["January", "February", "March", "April", "May", "June"];

export interface Script {
  /** The job that fails for good. */
  readonly failedId: string;
  /** The job that is still waiting when the demo ends. */
  readonly waitingId: string;
  /**
   * Called again and again with the time since the start: plays the scenes that are due by then, and enqueues jobs
   * unless it is quiet time.
   */
  play(elapsedMs: number, isQuiet: boolean): Promise<void>;
}

export async function startScript(mill: Millrace, announce: (news: string) => void): Promise<Script> {
  const made = await mill.enqueueMany([
    chargeCard.with({ order: 1, card: "4000 0000 0000 0002", failures: 99 }),
    ...[2, 3, 5].map((seconds) => reminder.with({ text: `${seconds} s are over` }, { delay: `${seconds}s` })),
    reminder.with({ text: "dinner" }, { delay: "1d", tags: ["dinner"] }),
    reminder.with({ text: "water the plants" }, { delay: "1d" }),
  ]);
  const [failed, dinner, plants] = [0, 4, 5].map((at) => made[at]?.id as string) as [string, string, string];
  const long = await mill.enqueue(exportAll, { format: "csv" });
  const acts: readonly (readonly [atMs: number, act: () => Promise<unknown>])[] = [
    [1500, () => mill.jobs.cancel(dinner, "eating out")],
    [
      3000,
      async () => {
        announce(
          `the export is cancelled while it runs: ${await mill.jobs.cancel(long.id, "no longer needed")}`,
        );
      },
    ],
  ];
  let actsDone = 0;
  let ticks = 0;
  return {
    failedId: failed,
    waitingId: plants,
    async play(elapsedMs, isQuiet) {
      for (; !isQuiet && ticks * tickMs <= elapsedMs; ticks++) await playTick(mill, ticks);
      for (let act = acts[actsDone]; act !== undefined && act[0] <= elapsedMs; act = acts[actsDone]) {
        actsDone += 1;
        await act[1]();
      }
    },
  };
}

async function playTick(mill: Millrace, tick: number): Promise<void> {
  const enqueues: Promise<unknown>[] = [mill.enqueue(welcomeEmail, { to: `user-${tick}@example.com` })];
  if (tick % 20 === 0) {
    const month = months[(tick / 20) % months.length] as string;
    const campaign = Array.from({ length: 40 }, (_, at) =>
      welcomeEmail.with({ to: `${month}-${at}@example.com` }, { priority: "low" }),
    );
    enqueues.push(mill.enqueue(monthlyReport, { month }), mill.enqueueMany(campaign));
  }
  if (tick % 6 === 3) {
    enqueues.push(
      mill.enqueue(chargeCard, {
        order: 100 + tick,
        card: "4242 4242 4242 4242",
        failures: tick % 4 === 1 ? 1 : 0,
      }),
    );
  }
  if (tick % 30 < 12) enqueues.push(mill.enqueue(reindex, { catalogue: "shoes" }, { delay: "1s" }));
  await Promise.all(enqueues);
}
