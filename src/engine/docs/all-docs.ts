/** All documents of a kind, read page by page, in byte order of their ids. */
import type { Doc } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";

/** As many as one read brings. */
export const docsPageMax = 500;

/**
 * @param kind.prefix only those whose id starts with it; all of the kind when left out.
 * @param kind.behind only those behind this id.
 * @param kind.passesOver leaves out those in partitions that fail, instead of failing.
 */
export async function* allDocs(
  store: Pick<Store, "readDocs">,
  {
    kind,
    prefix = "",
    behind = null,
    passesOver = false,
  }: {
    readonly kind: string;
    readonly prefix?: string;
    readonly behind?: string | null;
    readonly passesOver?: boolean;
  },
): AsyncGenerator<Doc, void, undefined> {
  let after = behind;
  do {
    const page: Awaited<ReturnType<Store["readDocs"]>> = await store.readDocs({
      kind,
      prefix,
      after,
      max: docsPageMax,
      passesOver,
    });
    yield* page.docs;
    after = page.cursor;
  } while (after !== null);
}
