/**
 * Keeps in the store since when no worker has served a route. The grace must go on while processes come and go, and
 * must start again as soon as an able worker was there. So restarting the only able worker costs no job that had waited
 * long.
 */
import { storeLimits } from "../../store/contract-limits.ts";
import type { DocPut } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import { allDocs } from "../docs/all-docs.ts";

const kind = "unserved";

/**
 * Records that exactly these routes are unserved now; the notes of all others are deleted.
 *
 * @returns since when each has been unserved, by the store's clock.
 */
export async function noteUnserved(
  store: Pick<Store, "readDocs" | "putDocs">,
  routes: readonly number[],
  now: number,
): Promise<ReadonlyMap<number, number>> {
  const unserved = new Set(routes);
  const since = new Map<number, number>();
  const puts: DocPut[] = [];
  for await (const { id, body } of allDocs(store, { kind })) {
    const at = Number(body);
    if (!unserved.has(Number(id))) puts.push({ kind, id, body: null, guard: "any" });
    else if (at <= now) since.set(Number(id), at);
  }
  for (const route of routes) {
    if (since.has(route)) continue;
    since.set(route, now);
    puts.push({ kind, id: String(route), body: String(now), guard: "any" });
  }
  // Routes beyond the limit of a call are recorded by a later pass; their grace only starts later.
  if (puts.length > 0) await store.putDocs(puts.slice(0, storeLimits.callItemsMax));
  return since;
}
