/** The bucket store keeps the contract over S3; after every case it is restored and compared, as in bucket.test.ts. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { openS3 } from "../../src/stores/bucket/objects/s3.ts";
import { openCompared } from "../support/compared-bucket.ts";
import { clientPlatform } from "../support/servers/http-server.ts";
import { openS3Server } from "../support/servers/s3-server.ts";
import type { S3Server } from "../support/servers/s3-server.ts";
import { describeStoreContract } from "./contract-suite.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-contract-s3-"));
let server: S3Server;
let stores = 0;
beforeAll(async () => void (server = await openS3Server()));
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

describeStoreContract("a bucket on S3", ({ platform }) => {
  const { bucket, url: endpoint, accessKeyId, secretAccessKey } = server;
  const credentials = async () => ({ accessKeyId, secretAccessKey });
  const prefix = `store-${(stores += 1)}/`;
  const open = () => openS3({ platform: clientPlatform(), bucket, endpoint, prefix, credentials });
  return openCompared(open, platform, folder);
});
