/**
 * The roll-up: the parts of a minute become one document, which lists them, and are deleted. A step that is repeated,
 * by whoever and behind whichever crash, changes nothing: a part that is listed is not added again, only deleted.
 *
 *   parts ──added to the minute's document, under its version──► parts and document ──parts deleted──► document
 */
import { MetricTable } from "../../model/metrics/metric-table.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import type { Doc, DocPut } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import {
  absorbAll,
  metricKind,
  minuteId,
  minuteMs,
  minutePut,
  partOf,
  readMinuteDoc,
  readParts,
  tablesOf,
} from "./metric-docs.ts";

/** A minute that ended less than this ago may still get parts: it is left for later, to save work. */
const freshMs = 30_000;

type MetricStore = Pick<Store, "readDocs" | "putDocs">;

export interface RolledUp {
  readonly parts: number;
  readonly hasMore: boolean;
  /** Some minutes were too fresh. */
  readonly hasFresh: boolean;
}

/** @param max about how many parts are taken; a minute is taken whole. */
export async function rollUpMinutes(store: MetricStore, now: number, max: number): Promise<RolledUp> {
  const before = Math.floor((now - freshMs) / minuteMs);
  const parts = await readParts(store, { from: 0, to: Number.POSITIVE_INFINITY }, max);
  const minutes = [...parts.keys()].sort((one, other) => one - other);
  let taken = 0;
  for (const minute of minutes) {
    if (minute >= before) return { parts: taken, hasMore: false, hasFresh: true };
    taken += await rollUp(store, { minute, parts: parts.get(minute) ?? [], now });
  }
  return { parts: taken, hasMore: taken >= max, hasFresh: false };
}

async function rollUp(
  store: MetricStore,
  { minute, parts, now }: { readonly minute: number; readonly parts: readonly Doc[]; readonly now: number },
): Promise<number> {
  const { docs } = await store.readDocs({ kind: metricKind, ids: [minuteId(minute)] });
  const [doc] = docs;
  const rolled = doc === undefined ? null : readMinuteDoc(doc);
  const listed = new Set(rolled?.body?.taken);
  const added = parts.map(partOf).filter((part) => !listed.has(part));
  if (added.length > 0) {
    const table = absorbAll(new MetricTable(), tablesOf(rolled?.body ?? null, parts));
    const body = { taken: [...listed, ...added], table: table.pack() };
    const put = minutePut(minute, body, rolled?.version ?? 0, now - minute * minuteMs);
    const [answer] = await store.putDocs([put]);
    // Another process rolls the same minute up.
    if (answer?.kind !== "ok") return 0;
  }
  const deletes = parts.map(({ kind, id }): DocPut => ({ kind, id, body: null, guard: "any" }));
  for (let from = 0; from < deletes.length; from += storeLimits.callItemsMax)
    await store.putDocs(deletes.slice(from, from + storeLimits.callItemsMax));
  return added.length;
}
