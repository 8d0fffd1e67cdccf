/**
 * Since when no worker has served a route, kept in the store: a grace is to go on while processes come and go, and to
 * begin anew as soon as somebody was there, so that the restart of the only able worker costs none of the jobs that
 * had to wait long for it.
 */
import { storeLimits } from "../../store/limits.ts";
import type { DocPut } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import { allDocs } from "../docs/all-docs.ts";

const kind = "unserved";

/**
 * Notes that exactly these routes are unserved now; of any other it is forgotten.
 *
 * @returns since when each has been, by the store's clock.
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
  // What is too much for one call is noted by a later pass: the grace only begins later.
  if (puts.length > 0) await store.putDocs(puts.slice(0, storeLimits.callItemsMax));
  return since;
}
