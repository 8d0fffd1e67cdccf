/** Stalls: from the end of a stall that has cost all leases until every slot of the worker is at work again. */
import type { Contender } from "../measure/contender.ts";
import { percentile } from "../figures.ts";

export async function measureStalls(
  contender: Contender,
  samples: number,
): Promise<{ readonly p50Ms: number; readonly p99Ms: number }> {
  if (contender.openStalls === undefined) throw new Error("The system is not measured with stalls.");
  const stalls = await contender.openStalls();
  const delaysMs: number[] = [];
  for (let sample = 0; sample < samples; sample++) delaysMs.push(await stalls.stallOne());
  await stalls.close();
  return { p50Ms: percentile(delaysMs, 0.5), p99Ms: percentile(delaysMs, 0.99) };
}
