/**
 * Cancel: from the call of cancel in one process until the signal of the running handler in another has fired. The two
 * are Millraces on connections of their own, so that what tells the worker is what the store carries from one to the
 * other.
 */
import type { Contender } from "../measure/contender.ts";
import { percentile } from "../figures.ts";

export async function measureCancel(
  contender: Contender,
  samples: number,
): Promise<{ readonly p50Ms: number; readonly p99Ms: number }> {
  if (contender.openCancels === undefined) throw new Error("The system is not measured with cancels.");
  const cancels = await contender.openCancels();
  const delaysMs: number[] = [];
  for (let sample = 0; sample < samples; sample++) delaysMs.push(await cancels.cancelOne());
  await cancels.close();
  return { p50Ms: percentile(delaysMs, 0.5), p99Ms: percentile(delaysMs, 0.99) };
}
