/** All records that the store could not read and has set aside, read page by page, in byte order of their refs. */
import type { Store } from "../../store/store.ts";
import type { AsideRecord } from "../../store/upkeep.ts";

const pageMax = 500;

export async function* allAside(
  store: Pick<Store, "readAside">,
): AsyncGenerator<AsideRecord, void, undefined> {
  let after: string | null = null;
  do {
    const page: Awaited<ReturnType<Store["readAside"]>> = await store.readAside({ after, max: pageMax });
    yield* page.records;
    after = page.cursor;
  } while (after !== null);
}
