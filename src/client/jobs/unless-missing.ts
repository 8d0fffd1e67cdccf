/**
 * What is only shown beside jobs (whether they are held) must not make a look at them fail: where a partition of the
 * store is missing, the rest is answered without it. On a store whose partitions all answer an error stays an error.
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
