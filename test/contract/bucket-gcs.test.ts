/** The bucket store keeps the contract over Google Cloud Storage; each case is compared as in bucket.test.ts. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { openGcs } from "../../src/stores/bucket/objects/gcs.ts";
import { openCompared } from "../support/compared-bucket.ts";
import { openGcsServer } from "../support/servers/gcs-server.ts";
import type { GcsServer } from "../support/servers/gcs-server.ts";
import { clientPlatform } from "../support/servers/http-server.ts";
import { describeStoreContract } from "./contract-suite.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-contract-gcs-"));
const keyFile = join(folder, "key.json");
const platformOfClient = clientPlatform({ GOOGLE_APPLICATION_CREDENTIALS: keyFile });
let server: GcsServer;
let stores = 0;
beforeAll(async () => {
  server = await openGcsServer();
  writeFileSync(keyFile, JSON.stringify(server.keyFile));
});
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

describeStoreContract("a bucket on Google Cloud Storage", ({ platform }) => {
  const { bucket, url: endpoint } = server;
  const prefix = `store-${(stores += 1)}/`;
  return openCompared(
    () => openGcs({ platform: platformOfClient, bucket, endpoint, prefix }),
    platform,
    folder,
  );
});
