/** The client of Azure Blob, over Azurite, and over a real container if MILLRACE_TEST_AZURE_URL names one. */
import { createHmac } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { AzureCredentials } from "../../src/store/objects.ts";
import { readBucketUrl } from "../../src/stores/bucket/bucket-url.ts";
import { openAzure } from "../../src/stores/bucket/objects/azure.ts";
import { azuriteAccount, azuriteKey, startAzurite } from "../support/servers/azurite.ts";
import type { Azurite } from "../support/servers/azurite.ts";
import { openFaultProxy } from "../support/servers/fault-proxy.ts";
import { clientPlatform } from "../support/servers/http-server.ts";
import { describeObjects } from "./objects-suite.ts";
import { describeRemote } from "./remote-suite.ts";

let azurite: Azurite;
beforeAll(async () => {
  azurite = await startAzurite();
  await azurite.makeContainer("jobs");
});
afterAll(() => azurite.stop());

const bare = clientPlatform();
const good: AzureCredentials = { accountKey: azuriteKey };
const wrongKey = Buffer.from("another key").toString("base64");
const bytes = new Uint8Array([1]);
const place = () => ({
  ...{ platform: bare, container: "jobs", prefix: "", account: azuriteAccount, endpoint: azurite.endpoint },
});

describeObjects("Azure", (given) => openAzure({ ...place(), ...given, credentials: async () => good }));

describeRemote("Azure", {
  port: () => azurite.port,
  open: ({ access = "good", platform = bare, bucket = "jobs", endpoint, prefix }) =>
    openAzure({
      ...{ container: bucket, prefix, platform, account: azuriteAccount },
      endpoint: `${endpoint}/${azuriteAccount}`,
      ...(access === "none"
        ? {}
        : { credentials: async () => (access === "good" ? good : { accountKey: wrongKey }) }),
    }),
  methods: { put: "PUT", remove: "DELETE" },
  busy: { kind: "answer", status: 503, headers: { "x-ms-error-code": "ServerBusy" } },
  secrets: [azuriteKey, wrongKey, "SharedKey"],
});

const realUrl = nodePlatform.readEnv("MILLRACE_TEST_AZURE_URL");
if (realUrl !== undefined) {
  const { name, prefix, account } = readBucketUrl(realUrl);
  const run = Buffer.from(nodePlatform.randomBytes(6)).toString("hex");
  describeObjects("real Azure", (given) =>
    openAzure({
      ...{ platform: nodePlatform, container: name, account: account ?? undefined, ...given },
      prefix: `${prefix}${run}/${given.prefix}`,
    }),
  );
}

/** A signature for the whole account, made from the rules that Azure publishes and not by our client. */
function sasUntil(end: string): string {
  const [permissions, services, types, version] = ["rwdlc", "b", "co", "2020-08-04"];
  const lines = [azuriteAccount, permissions, services, types, "", end, "", "https,http", version, "", ""];
  // The encryption scope came with a later version.
  const text = lines.slice(0, 10).join("\n");
  const sig = createHmac("sha256", Buffer.from(azuriteKey, "base64")).update(text).digest("base64");
  const query = { sv: version, ss: services, srt: types, sp: permissions, se: end, spr: "https,http", sig };
  return new URLSearchParams(query as Record<string, string>).toString();
}

test("a connection string of the environment names account, key and endpoint", async () => {
  const connection = `DefaultEndpointsProtocol=http;AccountName=${azuriteAccount};AccountKey=${azuriteKey};BlobEndpoint=${azurite.endpoint};`;
  const platform = clientPlatform({ AZURE_STORAGE_CONNECTION_STRING: connection });
  const objects = openAzure({ platform, container: "jobs", prefix: "connection/" });
  expect(await objects.put("log/1", bytes, true)).toBe("stored");
  expect(await objects.put("log/1", bytes, true)).toBe("exists");
  await objects.close();
});

test("a shared access signature works in every verb, and an expired one says so", async () => {
  const opened = (sas: string) =>
    openAzure({
      ...{
        platform: clientPlatform({ AZURE_STORAGE_ACCOUNT: azuriteAccount, AZURE_STORAGE_SAS_TOKEN: sas }),
      },
      ...{ container: "jobs", prefix: "with sas/", endpoint: azurite.endpoint },
    });
  const objects = opened(`?${sasUntil("2100-01-01T00:00:00Z")}`);
  expect(await objects.put("log/1", bytes, true)).toBe("stored");
  expect(await objects.get("log/1")).toHaveLength(1);
  expect((await objects.list("log/", null)).names).toEqual(["log/1"]);
  await objects.remove(["log/1"]);
  await objects.close();
  const expired = opened(sasUntil("2020-01-01T00:00:00Z"));
  const denied = { kind: "denied", message: expect.stringContaining("has expired") as string };
  await expect(expired.get("log/1")).rejects.toMatchObject(denied);
  await expired.close();
});

test("pages that are asked for one after the other cost one request each, and other names a walk", async () => {
  const proxy = await openFaultProxy({ port: azurite.port });
  const objects = openAzure({
    ...{ ...place(), prefix: "walk/", pageSize: 2, credentials: async () => good },
    endpoint: `${proxy.url}/${azuriteAccount}`,
  });
  for (let n = 1; n <= 9; n++) await objects.put(`log/${n}`, bytes, true);
  const before = proxy.seen.length;
  let after: string | null = null;
  for (let page = 0; page < 4; page++) after = (await objects.list("log/", after)).names.at(-1) as string;
  expect(after).toBe("log/8");
  expect(proxy.seen.length - before).toBe(4);
  expect((await objects.list("log/", "log/7")).names).toEqual(["log/8"]);
  expect(proxy.seen.length - before).toBe(8);
  await objects.close();
  await proxy.close();
});

test("without an account or a key the error says what to set", async () => {
  expect(() => openAzure({ platform: bare, container: "jobs", prefix: "" })).toThrow("AZURE_STORAGE_ACCOUNT");
  const objects = openAzure({ platform: bare, container: "jobs", prefix: "", account: "jobs" });
  await expect(objects.get("log/1")).rejects.toThrow("AZURE_STORAGE_KEY");
  await objects.close();
});
