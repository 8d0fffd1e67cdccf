/**
 * The client of Google Cloud Storage, over a strict server of ours, and over a real bucket if MILLRACE_TEST_GCS_URL
 * names one.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Platform } from "../../src/platform/platform.ts";
import { readBucketUrl } from "../../src/stores/bucket/bucket-url.ts";
import { openGcs } from "../../src/stores/bucket/objects/gcs.ts";
import type { GcsOptions } from "../../src/stores/bucket/objects/gcs.ts";
import { openGcsServer } from "../support/servers/gcs-server.ts";
import type { GcsServer } from "../support/servers/gcs-server.ts";
import { clientPlatform, serverAt } from "../support/servers/http-server.ts";
import { describeObjects } from "./objects-suite.ts";
import { describeRemote } from "./remote-suite.ts";

let server: GcsServer;
const folder = mkdtempSync(join(tmpdir(), "millrace-gcs-"));
const secrets: string[] = [];
beforeAll(async () => {
  server = await openGcsServer();
  const key = server.keyFile["private_key"] as string;
  secrets.push(...key.split("\n").filter((line) => line !== "" && !line.startsWith("-")), "ya29.");
});
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

const bytes = new Uint8Array([1]);
let files = 0;

function keyFileOf(content: unknown): string {
  const path = join(folder, `key-${(files += 1)}.json`);
  writeFileSync(path, JSON.stringify(content));
  return path;
}

/** By a key file, as on a server of one's own; the key file leads to the server's tokens. */
function opened(given: Partial<GcsOptions> & { prefix: string }) {
  const platform: Platform = {
    ...(given.platform ?? clientPlatform()),
    readEnv: (name) => (name === "GOOGLE_APPLICATION_CREDENTIALS" ? keyFileOf(server.keyFile) : undefined),
  };
  return openGcs({ bucket: "jobs", endpoint: server.url, ...given, platform });
}

describeObjects("Google Cloud Storage", opened);

describeRemote("Google Cloud Storage", {
  port: () => server.port,
  open: ({ access = "good", platform = clientPlatform(), ...given }) =>
    access === "good"
      ? opened({ ...given, platform })
      : openGcs({
          ...{ bucket: "jobs", ...given, platform: clientPlatform() },
          ...(access === "none" ? {} : { credentials: async () => ({ accessToken: "ya29.wrong" }) }),
        }),
  methods: { put: "POST", remove: "DELETE" },
  busy: {
    ...{ kind: "answer", status: 403 },
    body: JSON.stringify({ error: { code: 403, errors: [{ reason: "rateLimitExceeded" }] } }),
  },
  secrets,
});

const realUrl = nodePlatform.readEnv("MILLRACE_TEST_GCS_URL");
if (realUrl !== undefined) {
  const { name, prefix } = readBucketUrl(realUrl);
  const run = Buffer.from(nodePlatform.randomBytes(6)).toString("hex");
  describeObjects("real Google Cloud Storage", (given) =>
    openGcs({ platform: nodePlatform, bucket: name, ...given, prefix: `${prefix}${run}/${given.prefix}` }),
  );
}

test("one token serves until some minutes before its end, and a revoked one is replaced", async () => {
  let now = serverAt;
  const before = server.tokens;
  const objects = opened({ prefix: "tokens/", platform: { ...clientPlatform(), now: () => now } });
  await Promise.all([objects.get("a"), objects.get("b")]);
  await objects.get("c");
  expect(server.tokens - before).toBe(1);
  now += 56 * 60_000;
  // The server's clock stands where it was, so it takes no statement from this far ahead: the old token still serves.
  expect(await objects.get("c")).toBeNull();
  expect(server.tokens - before).toBe(1);
  now -= 56 * 60_000;
  server.revoke();
  expect(await objects.get("c")).toBeNull();
  expect(server.tokens - before).toBe(2);
  await objects.close();
});

test("a key file that is missing, of another kind, broken or deleted at Google says so and shows nothing of itself", async () => {
  const denied = (sentence: string) => ({
    kind: "denied",
    message: expect.stringContaining(sentence) as string,
  });
  const cases: readonly (readonly [path: string, sentence: string])[] = [
    [join(folder, "none.json"), "no readable JSON"],
    [keyFileOf({ type: "external_account" }), "service account"],
    [keyFileOf({ ...server.keyFile, private_key: "garbled" }), "private key"],
    [
      keyFileOf({ ...server.keyFile, client_email: "nobody@project.iam.gserviceaccount.com" }),
      "no access token",
    ],
  ];
  for (const [path, sentence] of cases) {
    const platform = clientPlatform({ GOOGLE_APPLICATION_CREDENTIALS: path });
    const objects = openGcs({ platform, bucket: "jobs", prefix: "", endpoint: server.url });
    await expect(objects.get("a")).rejects.toMatchObject(denied(sentence));
    await objects.close();
  }
});

test("an emulator is asked without credentials, and a terse 404 is settled by a list", async () => {
  const emulator = await openGcsServer({ isOpen: true, isTerse: true });
  const platform = clientPlatform({ STORAGE_EMULATOR_HOST: emulator.url.replace("http://", "") });
  const objects = openGcs({ platform, bucket: "jobs", prefix: "" });
  expect(await objects.get("log/1")).toBeNull();
  await objects.remove(["log/1"]);
  expect(await objects.put("log/1", bytes, true)).toBe("stored");
  await objects.close();
  const none = openGcs({ platform, bucket: "nobodys", prefix: "" });
  await expect(none.get("log/1")).rejects.toMatchObject({ kind: "no-bucket" });
  await none.close();
  await emulator.close();
});
