/** A bucket in memory with a store on it, for tests of what its objects become: one call, one record of the log. */
import { createVirtualPlatform } from "../../src/testing/virtual-platform.ts";
import type { VirtualPlatform } from "../../src/testing/virtual-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openBucketStore } from "../../src/stores/bucket/bucket-store.ts";
import { MemoryBucket } from "../../src/stores/bucket/objects/memory.ts";
import type { Objects } from "../../src/stores/bucket/objects/objects.ts";
import { aJob } from "./builders.ts";

export const hourMs = 60 * 60_000;
/** Longer than any grace, also that of a writer that has just begun. */
export const longMs = 40 * hourMs;

export interface BucketWorld {
  readonly bucket: MemoryBucket;
  readonly platform: VirtualPlatform;
  /** Opens the store as a new writer; `wrap` sees every verb. */
  readonly open: (wrap?: (objects: Objects) => Objects) => Promise<Store>;
  /** Submits jobs one after the other. */
  readonly submit: (store: Store, count: number) => Promise<void>;
  readonly advance: (ms: number) => Promise<void>;
  readonly names: (prefix: string) => Promise<string[]>;
}

export function aBucketWorld(cacheFolder: string): BucketWorld {
  const bucket = new MemoryBucket();
  const platform = createVirtualPlatform({ turns: "real" });
  let made = 0;
  return {
    bucket,
    platform,
    open: (wrap = (objects) => objects) =>
      openBucketStore({ objects: wrap(bucket.open()), platform, cacheFolder, whenHeld: "take" }),
    async submit(store, count) {
      for (let each = 0; each < count; each++)
        await store.submit([{ jobs: [aJob({ id: `job-${(made += 1)}` })] }]);
    },
    advance: (ms) => platform.time.advance(ms * 1000),
    names: (prefix) => namesOf(bucket.open(), prefix),
  };
}

export async function namesOf(objects: Objects, prefix: string): Promise<string[]> {
  const all: string[] = [];
  for (let after: string | null = null; ;) {
    const { names, isLast } = await objects.list(prefix, after);
    all.push(...names);
    if (isLast) return all;
    after = names.at(-1) as string;
  }
}
