/**
 * Reads something that is only shown with jobs, such as whether they are held. If a partition of the store is missing,
 * the answer goes without it, so that the read of the jobs does not fail. If all partitions answer, an error stays an
 * error.
 */
import type { Store } from "../../store/store.ts";

export async function unlessMissing<Answer>(
  store: Pick<Store, "missing">,
  read: () => Promise<Answer>,
  without: Answer,
): Promise<Answer> {
  try {
    return await read();
  } catch (error) {
    if ((store.missing?.() ?? []).length === 0) throw error;
    return without;
  }
}
