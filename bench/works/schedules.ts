/**
 * Schedules: many that fire every hour. While none is due, how much of a core the process takes; and once all are due
 * in one second, how long it takes until half of them and all of them have their jobs in the store.
 *
 *   schedules defined │ duties start, settle down │ idle: CPU time │ the tick │ looks at the count of jobs │
 */
import { collectGarbage, waitMs, wallMs } from "../measure/clock.ts";
import type { Contender } from "../measure/contender.ts";

const settleDownMs = 3000;
const lookMs = 20;
const giveUpMs = 60_000;

export async function measureIdleSchedules(
  contender: Contender,
  { schedules, seconds }: { readonly schedules: number; readonly seconds: number },
): Promise<{ readonly rate: number }> {
  const { repeat } = needed(contender);
  await repeat.define(schedules, wallMs() + 3_600_000);
  repeat.start();
  await waitMs(settleDownMs);
  collectGarbage();
  const from = process.cpuUsage();
  await waitMs(seconds * 1000);
  const { user, system } = process.cpuUsage(from);
  return { rate: ((user + system) / (seconds * 1_000_000)) * 100 };
}

/** @returns null if the lead was too short. */
export async function measureDueSchedules(
  contender: Contender,
  { schedules, leadMs }: { readonly schedules: number; readonly leadMs: number },
): Promise<{ readonly p50Ms: number; readonly p99Ms: number } | null> {
  const { repeat } = needed(contender);
  const tickMs = Math.ceil((wallMs() + settleDownMs + leadMs + schedules * 5) / 1000) * 1000;
  await repeat.define(schedules, tickMs);
  repeat.start();
  await waitMs(settleDownMs);
  collectGarbage();
  if (wallMs() > tickMs) return null;
  await waitMs(tickMs - wallMs());
  let halfMs: number | null = null;
  while (wallMs() < tickMs + giveUpMs) {
    const jobs = await repeat.countJobs();
    const sinceMs = wallMs() - tickMs;
    if (jobs >= schedules / 2) halfMs ??= sinceMs;
    if (jobs >= schedules) return { p50Ms: halfMs ?? sinceMs, p99Ms: sinceMs };
    await waitMs(lookMs);
  }
  throw new Error("Not all schedules had fired a minute after their tick.");
}

function needed(contender: Contender): Required<Pick<Contender, "repeat">> {
  const { repeat } = contender;
  if (repeat === undefined) throw new Error("This system is not measured with schedules.");
  return { repeat };
}
