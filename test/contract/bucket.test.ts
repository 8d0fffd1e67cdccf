/**
 * The bucket store keeps the contract, over objects in memory and on disk. After every case the store is restored from
 * its bucket and must equal the local copy, table by table.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { openFiles } from "../../src/stores/bucket/objects/files.ts";
import { MemoryBucket } from "../../src/stores/bucket/objects/memory.ts";
import { openCompared } from "../support/compared-bucket.ts";
import { describeStoreContract } from "./contract-suite.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-contract-bucket-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let buckets = 0;

describeStoreContract("a bucket in memory", ({ platform }) => {
  const bucket = new MemoryBucket();
  return openCompared(() => bucket.open(), platform, folder);
});

describeStoreContract("a bucket on disk", ({ platform }) => {
  const place = join(folder, `bucket-${buckets++}`);
  return openCompared(() => openFiles(place, nodePlatform), platform, folder);
});
