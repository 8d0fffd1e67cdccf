/** `Millrace.open` on buckets of each provider: by URL and environment, in namespaces, and through trouble. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { MillraceOptions } from "../../src/client/millrace-options.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import type { MillraceError } from "../../src/model/error.ts";
import { openMillraceOn } from "../../src/open.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Platform } from "../../src/platform/platform.ts";
import type { Objects } from "../../src/store/objects.ts";
import { MemoryBucket } from "../../src/stores/bucket/objects/memory.ts";
import { ObjectsError } from "../../src/stores/bucket/objects/objects.ts";
import { azuriteAccount, azuriteKey, startAzurite } from "../support/servers/azurite.ts";
import { openGcsServer } from "../support/servers/gcs-server.ts";
import { clientPlatform } from "../support/servers/http-server.ts";
import { openS3Server } from "../support/servers/s3-server.ts";
import type { S3Server } from "../support/servers/s3-server.ts";
import { until } from "../support/until.ts";

const send = job("send");
const folder = mkdtempSync(join(tmpdir(), "millrace-open-bucket-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const s3Environment = ({ url, accessKeyId, secretAccessKey }: S3Server): Platform =>
  clientPlatform({
    ...{ AWS_ENDPOINT_URL: url, AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey },
  });
const silent = { log: false, duties: false, bucket: { cacheFolder: folder } } as const;

/** Enqueues by one process, and finds the job in the next one and in a view. */
async function expectDurable(platform: Platform, url: string, options: MillraceOptions = {}): Promise<void> {
  const given = { ...silent, ...options, bucket: { ...silent.bucket, ...options.bucket } };
  const first = await openMillraceOn(platform, url, given);
  const { id } = await first.enqueue(send, { to: "ada" });
  await first.close();
  for (const bucket of [given.bucket, { ...given.bucket, view: true }]) {
    const next = await openMillraceOn(platform, url, { ...given, bucket });
    expect((await next.jobs.get(id))?.state).toBe("ready");
    await next.close();
  }
}

test("s3: the job of one process is there in the next, and a namespace is a folder under the prefix", async () => {
  const server = await openS3Server();
  await expectDurable(s3Environment(server), "s3://jobs/prefix");
  expect([...server.objects.keys()].every((key) => key.startsWith("prefix/"))).toBe(true);
  server.objects.clear();
  await expectDurable(s3Environment(server), "s3://jobs/prefix", { namespace: "blue" });
  expect([...server.objects.keys()].every((key) => /^prefix\/[^/]*blue[^/]*\//.test(key))).toBe(true);
  await server.close();
});

test("gs: the job of one process is there in the next", async () => {
  const server = await openGcsServer();
  const path = join(folder, "key.json");
  writeFileSync(path, JSON.stringify(server.keyFile));
  const platform = clientPlatform({ GOOGLE_APPLICATION_CREDENTIALS: path });
  await expectDurable(platform, "gs://jobs/prefix", { bucket: { endpoint: server.url } });
  await server.close();
});

test("az: the job of one process is there in the next; the URL may name the account", async () => {
  const azurite = await startAzurite();
  await azurite.makeContainer("jobs");
  const platform = clientPlatform({ AZURE_STORAGE_KEY: azuriteKey });
  const { endpoint } = azurite;
  await expectDurable(platform, `az://jobs/prefix?account=${azuriteAccount}`, { bucket: { endpoint } });
  await azurite.stop();
});

test("bucket: a caller's own four verbs, in a namespace too", async () => {
  const bucket = new MemoryBucket();
  const own = (): Objects => bucket.open();
  // Each opening closes what it was given, so that each gets its own.
  const opening = (options: MillraceOptions = {}) =>
    openMillraceOn(nodePlatform, "bucket:", {
      ...{ ...silent, ...options },
      bucket: { ...silent.bucket, objects: own() },
    });
  const first = await opening({ namespace: "blue" });
  const { id } = await first.enqueue(send, {});
  await first.close();
  const again = await opening({ namespace: "blue" });
  expect((await again.jobs.get(id))?.state).toBe("ready");
  await again.close();
  const other = await opening();
  expect(await other.jobs.get(id)).toBeNull();
  await other.close();
});

test("bucket: an error of another class does not end the store, and no answer passes for a stored object", async () => {
  const bucket = new MemoryBucket();
  let answers: "well" | "throws" | "nothing" = "well";
  const own = (): Objects => {
    const objects = bucket.open();
    return {
      put: async (name, bytes, ifAbsent) => {
        if (answers === "throws") throw new TypeError("socket hang up");
        return answers === "nothing" ? (undefined as never) : objects.put(name, bytes, ifAbsent);
      },
      get: (name) => objects.get(name),
      list: (prefix, after) => objects.list(prefix, after),
      remove: (names) => objects.remove(names),
      close: () => objects.close(),
    };
  };
  const open = (given = own()) =>
    openMillraceOn(nodePlatform, "bucket:jobs", {
      ...{ ...silent, giveUp: 0 },
      bucket: { ...silent.bucket, objects: given, callTimeout: 100 },
    });
  const mill = await open();
  for (const how of ["throws", "nothing"] as const) {
    answers = how;
    await expect(mill.enqueue(send, {})).rejects.toMatchObject({
      code: "outcome-unknown",
      message: expect.stringMatching(/bucket\.objects\.put (threw .*socket hang up|gave)/) as string,
    });
    answers = "well";
    await until("it goes on", async () => {
      const handle = await mill.enqueue(send, {}).catch(() => null);
      return handle !== null;
    });
  }
  await mill.close();
  const broken = { ...own(), get: async () => undefined as never };
  await expect(open(broken)).rejects.toMatchObject({
    code: "store-unavailable",
    message: expect.stringContaining("bucket.objects.get gave") as string,
  });
});

test("a function that gives no credentials, or a wrong expiration, is refused by name", async () => {
  const cases = [
    ["s3://jobs", undefined, /gave no credentials: they need accessKeyId and secretAccessKey/],
    ["s3://jobs", { accessKeyId: "a" }, /gave no credentials/],
    ["s3://jobs", { accessKeyId: "a", secretAccessKey: "b", expiration: "2026-01-01" }, /no Date/],
    ["gs://jobs", {}, /they need accessToken/],
    ["az://jobs?account=a", null, /they need accountKey, or sasToken, or accessToken/],
  ] as const;
  for (const [url, given, pattern] of cases) {
    const credentials = async () => given as never;
    const region = url.startsWith("s3") ? { region: "us-east-1" } : {};
    const bucket = { ...silent.bucket, ...region, endpoint: "http://127.0.0.1:1", credentials };
    await expect(
      openMillraceOn(clientPlatform({}), url, { ...silent, bucket }),
      JSON.stringify(given),
    ).rejects.toMatchObject({ code: "store-denied", message: expect.stringMatching(pattern) as string });
  }
});

test("options that an address cannot use, or of the wrong type, are refused", async () => {
  const refused = async (url: string, bucket: unknown): Promise<void> => {
    const opening = openMillraceOn(clientPlatform({}), url, { ...silent, bucket } as MillraceOptions);
    await expect(opening, `${url} ${JSON.stringify(bucket)}`).rejects.toMatchObject({
      code: "invalid-option",
    });
  };
  await refused(`file://${folder}/a`, { region: "eu-west-1" });
  await refused("gs://jobs", { pathStyle: true });
  await refused("s3://jobs", { objects: new MemoryBucket().open() });
  await refused("bucket:", {});
  await refused("bucket:", { objects: { put: () => undefined } });
  await refused("s3://jobs", { credentials: "key" });
  await refused("s3://jobs", { endpoint: 1 });
  await refused("s3://jobs", { pathStyle: "yes" });
});

test("a folder whose URL ends with a slash is the same folder", async () => {
  await expectDurable(nodePlatform, `file://${join(folder, "slashed")}/`);
});

test("missing buckets, wrong keys and missing credentials are errors with codes of their own, and without secrets", async () => {
  const server = await openS3Server();
  const platform = s3Environment(server);
  const failure = async (
    url: string,
    on: Platform,
    options: MillraceOptions = {},
  ): Promise<MillraceError> => {
    const opening = openMillraceOn(on, url, { ...silent, ...options });
    const error: unknown = await opening.then(
      () => null,
      (thrown: unknown) => thrown,
    );
    return error as MillraceError;
  };
  expect(await failure("s3://nobodys", platform)).toMatchObject({ code: "store-missing" });
  expect(await failure("s3://jobs", clientPlatform({ AWS_ENDPOINT_URL: server.url }))).toMatchObject({
    code: "store-denied",
    message: expect.stringContaining("AWS_ACCESS_KEY_ID") as string,
  });
  const wrong = clientPlatform({
    ...{ AWS_ENDPOINT_URL: server.url, AWS_ACCESS_KEY_ID: "AKIDTEST", AWS_SECRET_ACCESS_KEY: "hidden" },
  });
  const denied = await failure("s3://jobs", wrong);
  expect(denied).toMatchObject({ code: "store-denied" });
  expect(`${denied.message} ${String(denied.cause)}`).not.toContain("hidden");
  await server.close();
});

test("storage that ignores conditions, or does not know them, is refused", async () => {
  for (const [conditions, code] of [
    ["ignored", "durability-refused"],
    ["refused", "durability-refused"],
  ] as const) {
    const server = await openS3Server({ conditions });
    const opening = openMillraceOn(s3Environment(server), "s3://jobs", silent);
    await expect(opening).rejects.toMatchObject({
      code,
      message: expect.stringContaining("condition") as string,
    });
    await server.close();
  }
});

test("every third call fails, before or after its effect, and a store opens and is taken over all the same", async () => {
  const bucket = new MemoryBucket();
  let calls = 0;
  // What waits for a retry waits a twentieth of its time.
  const hasty: Platform = {
    ...nodePlatform,
    setTimer: (delayMs, run, keepsAlive) =>
      nodePlatform.setTimer(delayMs <= 2000 ? delayMs / 20 : delayMs, run, keepsAlive),
  };
  const shaky = (objects: Objects): Objects => {
    const trouble = async <T>(verb: () => Promise<T>): Promise<T> => {
      const turn = (calls += 1) % 6;
      if (turn === 2) throw new ObjectsError("busy", "busy");
      const answer = await verb();
      if (turn === 5) throw new ObjectsError("unreachable", "lost", { outcome: "unknown" });
      return answer;
    };
    return {
      put: (...given) => trouble(() => objects.put(...given)),
      get: (...given) => trouble(() => objects.get(...given)),
      list: (...given) => trouble(() => objects.list(...given)),
      remove: (...given) => trouble(() => objects.remove(...given)),
      close: () => objects.close(),
    };
  };
  const open = (whenHeld: "wait" | "take") =>
    openMillraceOn(hasty, "bucket:", {
      ...{ log: false, duties: false },
      bucket: { cacheFolder: folder, objects: shaky(bucket.open()), whenHeld },
    });
  const ids: string[] = [];
  for (let round = 0; round < 3; round++) {
    const mill = await open("wait");
    ids.push((await mill.enqueue(send, { round })).id);
    const newcomer = await open("take");
    ids.push((await newcomer.enqueue(send, { round })).id);
    await expect(mill.enqueue(send, { round })).rejects.toMatchObject({ code: "store-fenced" });
    await mill.close();
    await newcomer.close();
  }
  const last = await open("wait");
  for (const id of ids) expect((await last.jobs.get(id))?.state).toBe("ready");
  await last.close();
});
