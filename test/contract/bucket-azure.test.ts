/** The bucket store keeps the contract over Azure Blob; each case ends as in bucket.test.ts: restored and compared. */
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

describeStoreContract("a bucket on Azure Blob", ({ platform }) => {
  const { endpoint } = azurite;
  const credentials = async () => ({ accountKey: azuriteKey });
  const place = { container: "jobs", account: azuriteAccount, endpoint, prefix: `store-${(stores += 1)}/` };
  return openCompared(
    () => openAzure({ platform: clientPlatform(), ...place, credentials }),
    platform,
    folder,
  );
});
