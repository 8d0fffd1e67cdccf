/** The client of S3, over a strict server of ours, and over a real one if MILLRACE_TEST_S3_URL names a bucket. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Platform } from "../../src/platform/platform.ts";
import type { S3Credentials } from "../../src/store/objects.ts";
import { readBucketUrl } from "../../src/stores/bucket/bucket-url.ts";
import { openS3 } from "../../src/stores/bucket/objects/s3.ts";
import type { S3Options } from "../../src/stores/bucket/objects/s3.ts";
import { clientPlatform, serverAt } from "../support/servers/http-server.ts";
import { openS3Server } from "../support/servers/s3-server.ts";
import type { S3Server, S3ServerOptions } from "../support/servers/s3-server.ts";
import { describeObjects } from "./objects-suite.ts";
import { describeRemote } from "./remote-suite.ts";

let server: S3Server;
beforeAll(async () => void (server = await openS3Server()));
afterAll(() => server.close());

const secret = "a/secret+that nobody=may see";
const good: S3Credentials = { accessKeyId: "AKIDTEST", secretAccessKey: secret };
const wrong: S3Credentials = { accessKeyId: "AKIDTEST", secretAccessKey: "another secret" };
const bare = clientPlatform();
const place = (url: string) => ({ platform: bare, bucket: "jobs", prefix: "", endpoint: url });
const bytes = new Uint8Array([1]);

describeObjects("S3", (given) => openS3({ ...place(server.url), ...given, credentials: async () => good }));

describeRemote("S3", {
  port: () => server.port,
  open: ({ access = "good", platform = bare, ...given }) =>
    openS3({
      ...{ bucket: "jobs", ...given, platform },
      ...(access === "none" ? {} : { credentials: async () => (access === "good" ? good : wrong) }),
    }),
  methods: { put: "PUT", remove: "POST" },
  busy: { kind: "answer", status: 503, body: "<Error><Code>SlowDown</Code></Error>" },
  secrets: [secret, "another secret", "AWS4-HMAC-SHA256"],
});

const realUrl = nodePlatform.readEnv("MILLRACE_TEST_S3_URL");
if (realUrl !== undefined) {
  const { name, prefix } = readBucketUrl(realUrl);
  const run = Buffer.from(nodePlatform.randomBytes(6)).toString("hex");
  describeObjects("real S3", (given) =>
    openS3({ platform: nodePlatform, bucket: name, ...given, prefix: `${prefix}${run}/${given.prefix}` }),
  );
}

async function withServer(options: S3ServerOptions, run: (server: S3Server) => Promise<void>): Promise<void> {
  const own = await openS3Server(options);
  try {
    await run(own);
  } finally {
    await own.close();
  }
}

test("the environment names endpoint, region and credentials, a session token among them", () =>
  withServer({ sessionToken: "session", region: "eu-north-1" }, async ({ url }) => {
    const platform = clientPlatform({
      ...{ AWS_ENDPOINT_URL_S3: url, AWS_ENDPOINT_URL: "http://127.0.0.1:1", AWS_REGION: "eu-north-1" },
      ...{ AWS_ACCESS_KEY_ID: "AKIDTEST", AWS_SECRET_ACCESS_KEY: secret, AWS_SESSION_TOKEN: "session" },
    });
    const objects = openS3({ platform, bucket: "jobs", prefix: "" });
    expect(await objects.put("log/1", bytes, true)).toBe("stored");
    await objects.close();
  }));

test("expired credentials are denied with a sentence that says so; a function is asked again and then it works", () =>
  withServer({ sessionToken: "new" }, async ({ url }) => {
    let token = "old";
    let asked = 0;
    const credentials = async (): Promise<S3Credentials> => {
      asked += 1;
      return { ...good, sessionToken: token };
    };
    const objects = openS3({ ...place(url), credentials });
    const expired = {
      kind: "denied",
      message: expect.stringContaining("credentials have expired") as string,
    };
    await expect(objects.put("log/1", bytes, true)).rejects.toMatchObject(expired);
    expect(asked).toBe(2);
    // A storm of denials does not become a storm of questions.
    await expect(objects.put("log/1", bytes, true)).rejects.toMatchObject(expired);
    expect(asked).toBe(2);
    await objects.close();
    const later = openS3({ ...place(url), credentials });
    const denied = later.get("log/1");
    token = "new";
    expect(await denied).toBeNull();
    await later.close();
  }));

test("credentials are asked for again before they expire, once for all calls, and old ones serve if that fails", async () => {
  let now = serverAt;
  let asked = 0;
  let isBroken = false;
  const platform: Platform = { ...bare, now: () => now };
  const credentials = async (): Promise<S3Credentials> => {
    asked += 1;
    if (isBroken) throw new Error("no answer");
    return { ...good, expiration: new Date(now + 600_000) };
  };
  const objects = openS3({ ...place(server.url), platform, credentials });
  await Promise.all([objects.get("a"), objects.get("b"), objects.get("c")]);
  expect(asked).toBe(1);
  now += 310_000;
  isBroken = true;
  expect(await objects.get("a")).toBeNull();
  expect(asked).toBe(2);
  isBroken = false;
  expect(await objects.get("a")).toBeNull();
  expect(asked).toBe(3);
  isBroken = true;
  now += 600_000;
  await expect(objects.get("a")).rejects.toMatchObject({ kind: "denied" });
  await objects.close();
});

test("a wrong clock, a wrong region and a wrong key are told apart", async () => {
  const cases: readonly (readonly [Partial<S3Options>, Record<string, unknown>])[] = [
    [
      { platform: { ...bare, now: () => serverAt - 3_600_000 } },
      { kind: "denied", message: expect.stringContaining("clock") as string },
    ],
    [{ region: "eu-west-9" }, { kind: "refused", message: expect.stringContaining("region") as string }],
    [
      { credentials: async () => ({ ...good, accessKeyId: "AKIDNOBODY" }) },
      { kind: "denied", message: expect.stringContaining("InvalidAccessKeyId") as string },
    ],
  ];
  for (const [given, error] of cases) {
    const objects = openS3({ ...place(server.url), credentials: async () => good, ...given });
    await expect(objects.get("log/1")).rejects.toMatchObject(error);
    await objects.close();
  }
});

test("a put of which the service took back its decision is busy, whatever it is called", async () => {
  const objects = openS3({ ...place(server.url), credentials: async () => good });
  const answers = await Promise.allSettled(
    Array.from({ length: 30 }, (_, at) => objects.put("raced/1", new Uint8Array([at]), true)),
  );
  const stored = answers.filter((one) => one.status === "fulfilled" && one.value === "stored");
  expect(stored.length).toBeLessThanOrEqual(1);
  for (const one of answers)
    if (one.status === "rejected")
      expect(one.reason).toMatchObject({ kind: "busy", outcome: "did-not-happen" });
  await objects.close();
});

test("a directory bucket and an unknown region are refused at once, and an endpoint with a password unread", () => {
  const open = (given: Partial<S3Options>) => () =>
    openS3({ platform: bare, bucket: "jobs", prefix: "", ...given });
  expect(open({ bucket: "jobs--use1-az4--x-s3" })).toThrow("directory bucket");
  expect(open({})).toThrow("AWS_REGION");
  expect(open({ endpoint: "https://user:hidden@host" })).toThrow(/^(?!.*hidden).*endpoint/);
});
