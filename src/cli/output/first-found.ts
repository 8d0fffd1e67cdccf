/** Pages of a list: one may be empty with a cursor, if the scan found nothing yet. */

/** @returns the first page with an entry, or the last one. */
export async function firstFound<Page extends { readonly cursor: string | null }>(
  cursor: string | null,
  read: (cursor: string | null) => Promise<Page>,
  entriesOf: (page: Page) => readonly unknown[],
): Promise<Page> {
  let page = await read(cursor);
  while (entriesOf(page).length === 0 && page.cursor !== null) page = await read(page.cursor);
  return page;
}
