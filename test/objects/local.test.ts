/** Objects in memory and in a folder pass the suite of all clients. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { openFiles } from "../../src/stores/bucket/objects/files.ts";
import { MemoryBucket } from "../../src/stores/bucket/objects/memory.ts";
import { openObjects } from "../../src/stores/bucket/objects/open-objects.ts";
import { readBucketUrl } from "../../src/stores/bucket/bucket-url.ts";
import { describeObjects } from "./objects-suite.ts";

const root = mkdtempSync(join(tmpdir(), "millrace-objects-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const pages = new Map<number, MemoryBucket>();
const bucketOf = (pageSize: number): MemoryBucket => {
  const bucket = pages.get(pageSize) ?? new MemoryBucket({ pageSize });
  pages.set(pageSize, bucket);
  return bucket;
};

describeObjects("in memory", ({ prefix, pageSize = 1000 }) => bucketOf(pageSize).open(prefix));

describeObjects("in a folder", ({ prefix }) => {
  const folder = join(root, prefix);
  mkdirSync(folder, { recursive: true });
  return openFiles(folder, nodePlatform);
});

describeObjects("a caller's own, under a prefix", ({ prefix, pageSize = 1000 }) =>
  openObjects(readBucketUrl(`bucket:own/${prefix}`), { objects: bucketOf(pageSize).open() }, nodePlatform),
);
