/**
 * The totals: minutes that were rolled up are added to one document, in order, each once: the document says up to which
 * minute, and is written under its version. A part that comes later than that is in its minute, but not in the totals.
 */
import { MetricTable } from "../../model/metrics/metric-table.ts";
import { MetricTotals } from "../../model/metrics/metric-totals.ts";
import type { Store } from "../../store/store.ts";
import { absorbAll, minuteDocs, minuteMs, readMinutes, readTotals, totalsPut } from "./metric-docs.ts";
import type { TotalsBody } from "./metric-docs.ts";

/** How long a minute is waited for. */
const settledMs = 10 * minuteMs;

export async function addUpTotals(
  store: Pick<Store, "readDocs" | "putDocs">,
  now: number,
  max: number,
): Promise<{ readonly minutes: number; readonly hasMore: boolean }> {
  const { body, version } = await readTotals(store);
  const { totals, upTo } = opened(body);
  let last = upTo;
  let minutes = 0;
  const range = { from: upTo + 1, to: Math.floor((now - settledMs) / minuteMs) };
  for await (const { minute, body: rolled } of minuteDocs(store, range)) {
    if (minutes === max) break;
    minutes += 1;
    last = minute;
    if (rolled !== null) totals.absorb(absorbAll(new MetricTable(), [rolled.table]));
  }
  if (minutes === 0) return { minutes, hasMore: false };
  const [answer] = await store.putDocs([totalsPut({ upTo: last, totals: totals.pack() }, version)]);
  return { minutes: answer?.kind === "ok" ? minutes : 0, hasMore: minutes === max };
}

/** Everything that was ever counted and written, as of now. */
export async function readAllTotals(store: Pick<Store, "readDocs">): Promise<MetricTotals> {
  const { totals, upTo } = opened((await readTotals(store)).body);
  const since = { from: upTo + 1, to: Number.POSITIVE_INFINITY };
  for await (const [, tables] of readMinutes(store, since))
    totals.absorb(absorbAll(new MetricTable(), tables));
  return totals;
}

function opened(body: TotalsBody | null): { readonly totals: MetricTotals; readonly upTo: number } {
  try {
    if (body !== null) return { totals: MetricTotals.unpack(body.totals), upTo: body.upTo };
  } catch {
    // Damaged: what is kept is added up anew. To Prometheus that is a counter that was set back.
  }
  return { totals: new MetricTotals(), upTo: -1 };
}
