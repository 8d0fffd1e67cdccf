/** The errors of a pass over all partitions: each partition that fails was passed over, and its work is not done. */
import type { Engine } from "../engine.ts";

export function missingCount({ store }: Engine): number {
  return store.missing?.().length ?? 0;
}
