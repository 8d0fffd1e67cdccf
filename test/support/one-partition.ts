/**
 * A store of several partitions all of whose jobs lie in one of them, as a store of one partition: what it says of its
 * partitions is left out.
 */
import type { Store } from "../../src/store/store.ts";

export function onePartition(store: Store, partition: number): Store {
  return {
    ...store,
    readFeed: (request) => store.readFeed({ partition, ...request }),
    promoteDue: async (request) => {
      const { countIn: _, hiddenInMs: __, ...answer } = await store.promoteDue(request);
      return answer;
    },
  };
}
