import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { nodePlatform } from "../../../platform/node-platform.ts";
import { gcsDeletionRules, s3DeletionRules } from "./deletion-rules.ts";
import { openGcs } from "./gcs.ts";
import { openS3 } from "./s3.ts";

const rule = (inside: string, status = "Enabled"): string =>
  `<?xml version="1.0"?><LifecycleConfiguration><Rule><ID>old &amp; gone</ID>${inside}<Status>${status}</Status></Rule></LifecycleConfiguration>`;
const days = "<Expiration><Days>7</Days></Expiration>";

test.each([
  ["the whole bucket", rule(`<Filter/>${days}`), "jobs/", 1],
  ["an empty prefix", rule(`<Filter><Prefix></Prefix></Filter>${days}`), "jobs/", 1],
  ["the store's prefix", rule(`<Filter><Prefix>jobs/</Prefix></Filter>${days}`), "jobs/", 1],
  ["a part of the store", rule(`<Filter><And><Prefix>jobs/log/</Prefix></And></Filter>${days}`), "jobs/", 1],
  ["the old form of a prefix", rule(`<Prefix>jobs/</Prefix>${days}`), "jobs/", 1],
  ["another prefix", rule(`<Filter><Prefix>mail/</Prefix></Filter>${days}`), "jobs/", 0],
  ["objects with a tag", rule(`<Filter><Tag><Key>a</Key><Value>b</Value></Tag></Filter>${days}`), "jobs/", 0],
  ["a rule that is off", rule(`<Filter/>${days}`, "Disabled"), "", 0],
  [
    "old versions",
    rule(
      "<Filter/><NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>",
    ),
    "",
    0,
  ],
  [
    "unfinished uploads",
    rule(
      "<Filter/><AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>",
    ),
    "",
    0,
  ],
  [
    "a move to an archive",
    rule("<Filter/><Transition><Days>1</Days><StorageClass>DEEP_ARCHIVE</StorageClass></Transition>"),
    "",
    1,
  ],
  [
    "a move of old versions to an archive",
    rule(
      "<Filter/><NoncurrentVersionTransition><NoncurrentDays>1</NoncurrentDays><StorageClass>GLACIER</StorageClass></NoncurrentVersionTransition>",
    ),
    "",
    0,
  ],
  [
    "a move to a cheaper class",
    rule("<Filter/><Transition><Days>30</Days><StorageClass>STANDARD_IA</StorageClass></Transition>"),
    "",
    0,
  ],
])("S3: of %s", (_, xml, prefix, count) => {
  expect(s3DeletionRules(xml, prefix)).toHaveLength(count);
});

test("S3: a rule is named with what it does", () => {
  expect(s3DeletionRules(rule(`<Filter><Prefix>jobs/log/</Prefix></Filter>${days}`), "jobs/")).toEqual([
    'The lifecycle rule "old & gone" (under log/) deletes objects of this store 7 days after they were put',
  ]);
});

test.each([
  ["the whole bucket", { action: { type: "Delete" }, condition: { age: 3 } }, 1],
  [
    "the store's prefix",
    { action: { type: "Delete" }, condition: { age: 3, matchesPrefix: ["a/", "jobs/"] } },
    1,
  ],
  ["another prefix", { action: { type: "Delete" }, condition: { age: 3, matchesPrefix: ["mail/"] } }, 0],
  ["old versions", { action: { type: "Delete" }, condition: { numNewerVersions: 2 } }, 0],
  ["what is not live", { action: { type: "Delete" }, condition: { age: 3, isLive: false } }, 0],
  ["another class", { action: { type: "SetStorageClass" }, condition: { age: 3 } }, 0],
])("Google Cloud Storage: of %s", (_, one, count) => {
  expect(gcsDeletionRules({ lifecycle: { rule: [one] } }, "jobs/")).toHaveLength(count);
});

test("Google Cloud Storage: a rule is named by its place", () => {
  const bucket = { lifecycle: { rule: [{ action: { type: "Delete" }, condition: { age: 30 } }] } };
  expect(gcsDeletionRules(bucket, "")).toEqual([
    'The lifecycle rule "1" deletes objects of this store 30 days after they were put',
  ]);
  expect(gcsDeletionRules({}, "")).toEqual([]);
});

/** A server that gives this answer to everything, and the paths that it was asked for. */
async function answering(status: number, body: string): Promise<{ endpoint: string; asked: string[] }> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    response.writeHead(status).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

const none = "<Error><Code>NoSuchLifecycleConfiguration</Code></Error>";
test.each([
  [200, rule(`<Filter/>${days}`), 1],
  [404, none, 0],
  [403, "<Error><Code>AccessDenied</Code></Error>", null],
])("S3: an answer %i is read", async (status, body, count) => {
  const { endpoint, asked } = await answering(status, body);
  const credentials = async () => ({ accessKeyId: "key", secretAccessKey: "secret" });
  const objects = openS3({ platform: nodePlatform, bucket: "jobs", prefix: "a/", endpoint, credentials });
  expect((await objects.deletionRules?.())?.length ?? null).toBe(count);
  expect(asked[0]).toBe("GET /jobs/?lifecycle=");
  await objects.close();
});

test.each([
  [200, { lifecycle: { rule: [{ action: { type: "Delete" }, condition: { age: 3 } }] } }, 1],
  [200, {}, 0],
  [403, { error: { errors: [{ reason: "forbidden" }] } }, null],
])("Google Cloud Storage: an answer %i %j is read", async (status, body, count) => {
  const { endpoint, asked } = await answering(status, JSON.stringify(body));
  const credentials = async () => ({ accessToken: "token" });
  const objects = openGcs({ platform: nodePlatform, bucket: "jobs", prefix: "a/", endpoint, credentials });
  expect((await objects.deletionRules?.())?.length ?? null).toBe(count);
  expect(asked[0]).toBe("GET /storage/v1/b/jobs?fields=lifecycle");
  await objects.close();
});
