/**
 * The bucket store keeps the contract over Azure Blob; each case ends as in bucket.test.ts: restored and compared.
 *
 * Azurite takes twice the CPU time of our own servers, and all that a case asks of it are the same four verbs. So only
 * the groups that write run here: small records and large ones, odd bytes, and what waits for its landing. All groups
 * run over memory and disk (bucket.test.ts), S3 and Google Cloud Storage. The rules of conditional writes are in
 * test/objects/azure.test.ts, whole. MILLRACE_AZURITE=all runs all groups here as well.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { openAzure } from "../../src/stores/bucket/objects/azure.ts";
import { azuriteAccount, azuriteKey, startAzurite } from "../support/servers/azurite.ts";
import type { Azurite } from "../support/servers/azurite.ts";
import { openCompared } from "../support/compared-bucket.ts";
import { clientPlatform } from "../support/servers/http-server.ts";
import { describeStoreContract } from "./contract-suite.ts";
import type { OpenStore } from "./contract-suite.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-contract-azure-"));
let azurite: Azurite;
let stores = 0;
beforeAll(async () => {
  azurite = await startAzurite();
  await azurite.makeContainer("jobs");
});
afterAll(async () => {
  await azurite.stop();
  rmSync(folder, { recursive: true, force: true });
});

const groups = [
  ...[
    "submit",
    "claim",
    "settleIfLeased",
    "extendIfLeased",
    "changeIf",
    "putDocs and readDocs",
    "a heartbeat",
  ],
  ...["flows that fan out", "texts", "describe and what comes later"],
];
const why = "runs over memory, disk, S3 and Google Cloud Storage; here with MILLRACE_AZURITE=all";
const part = process.env["MILLRACE_AZURITE"] === "all" ? null : { groups, why };

const openOnAzure: OpenStore = ({ platform }) => {
  const { endpoint } = azurite;
  const credentials = async () => ({ accountKey: azuriteKey });
  const place = { container: "jobs", account: azuriteAccount, endpoint, prefix: `store-${(stores += 1)}/` };
  return openCompared(
    () => openAzure({ platform: clientPlatform(), ...place, credentials }),
    platform,
    folder,
  );
};
describeStoreContract("a bucket on Azure Blob", openOnAzure, {}, part);
