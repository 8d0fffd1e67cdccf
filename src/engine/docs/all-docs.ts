/** All documents of a kind, read page by page, in byte order of their ids. */
import type { Doc } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";

/** The size of a page. */
export const docsPageMax = 500;

/**
 * @param kind.prefix only documents whose id starts with it. @param kind.behind only those after this id. @param
 * kind.passesOver skips partitions that fail, instead of failing.
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
