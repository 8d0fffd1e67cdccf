/** How many attempts ended in a period, by the metrics of all processes. */
import { absorbAll, minuteMs, readMinutes } from "../../engine/metrics/metric-docs.ts";
import { MetricTable } from "../../model/metrics/metric-table.ts";
import type { Store } from "../../store/store.ts";

/**
 * Counts only the full minutes of the period, because metrics are kept by the minute. `ms` is the length of these
 * minutes, 0 if there are none.
 */
export async function countAttempts(
  store: Pick<Store, "readDocs">,
  { from, to }: { readonly from: number; readonly to: number },
): Promise<{ readonly attempts: number; readonly ms: number }> {
  const range = { from: Math.ceil(from / minuteMs), to: Math.floor(to / minuteMs) - 1 };
  let attempts = 0;
  if (range.to < range.from) return { attempts, ms: 0 };
  for await (const [, tables] of readMinutes(store, range))
    for (const { outcomes } of absorbAll(new MetricTable(), tables).series())
      for (const count of outcomes) attempts += count;
  return { attempts, ms: (range.to - range.from + 1) * minuteMs };
}
