/** All records that the store could not read, read page by page, in byte order of their refs. */
import type { Store } from "../../store/store.ts";
import type { UnreadableRecord } from "../../store/upkeep.ts";

const pageMax = 500;

export async function* allUnreadable(
  store: Pick<Store, "readUnreadable">,
): AsyncGenerator<UnreadableRecord, void, undefined> {
  let after: string | null = null;
  do {
    const page: Awaited<ReturnType<Store["readUnreadable"]>> = await store.readUnreadable({
      after,
      max: pageMax,
    });
    yield* page.records;
    after = page.cursor;
  } while (after !== null);
}
