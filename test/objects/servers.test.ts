/** The strict servers of the tests: each rule of conditional writes, and what they must not let pass. */
import { createHash, createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { openGcsServer } from "../support/servers/gcs-server.ts";
import { serverAt } from "../support/servers/http-server.ts";
import { openS3Server } from "../support/servers/s3-server.ts";
import type { S3Server, S3ServerOptions } from "../support/servers/s3-server.ts";

interface Sent {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Headers that are sent and not signed. */
  readonly unsigned?: Readonly<Record<string, string>>;
  /** What is done to the request after it was signed. */
  readonly forged?: { readonly target?: string; readonly body?: string };
}

/** A request to the S3 server that is signed by the protocol's rules, by none of our code. */
async function s3(
  server: S3Server,
  target: string,
  { method = "GET", headers = {}, body = "", unsigned = {}, forged = {} }: Sent = {},
): Promise<{ status: number; code: string | null; text: string }> {
  const hex = (text: string): string => createHash("sha256").update(text).digest("hex");
  const at = new Date(serverAt).toISOString().replace(/[-:]|\.\d+/g, "");
  const scope = `${at.slice(0, 8)}/${server.region}/s3/aws4_request`;
  const all: Record<string, string> = {
    ...headers,
    host: `127.0.0.1:${server.port}`,
    "x-amz-content-sha256": hex(body),
    "x-amz-date": at,
  };
  const names = Object.keys(all).sort();
  const [path, query = ""] = target.split("?");
  const canonical = [
    ...[method, path, query.split("&").sort().join("&")],
    ...[names.map((name) => `${name}:${all[name]}\n`).join(""), names.join(";"), hex(body)],
  ].join("\n");
  let key: string | Buffer = `AWS4${server.secretAccessKey}`;
  for (const part of scope.split("/")) key = createHmac("sha256", key).update(part).digest();
  const signature = createHmac("sha256", key)
    .update(`AWS4-HMAC-SHA256\n${at}\n${scope}\n${hex(canonical)}`)
    .digest("hex");
  const authorization = `AWS4-HMAC-SHA256 Credential=${server.accessKeyId}/${scope}, SignedHeaders=${names.join(";")}, Signature=${signature}`;
  const { host: _host, ...rest } = all;
  const sent = forged.body ?? body;
  const response = await fetch(`${server.url}${forged.target ?? target}`, {
    method,
    headers: { ...rest, ...unsigned, authorization },
    body: method === "GET" ? null : sent,
  });
  const text = await response.text();
  return { status: response.status, code: /<Code>(\w+)</.exec(text)?.[1] ?? null, text };
}

async function onS3(run: (server: S3Server) => Promise<void>, options: S3ServerOptions = {}): Promise<void> {
  const server = await openS3Server(options);
  try {
    await run(server);
  } finally {
    await server.close();
  }
}

const ifAbsent = { "if-none-match": "*" };

test("S3: a put with If-None-Match: * stores once, and changes nothing from then on", () =>
  onS3(async (server) => {
    expect(await s3(server, "/jobs/a", { method: "PUT", headers: ifAbsent, body: "1" })).toMatchObject({
      status: 200,
    });
    const again = await s3(server, "/jobs/a", { method: "PUT", headers: ifAbsent, body: "2" });
    expect(again).toMatchObject({ status: 412, code: "PreconditionFailed" });
    expect((await s3(server, "/jobs/a")).text).toBe("1");
    expect(await s3(server, "/jobs/a", { method: "PUT", body: "3" })).toMatchObject({ status: 200 });
    expect((await s3(server, "/jobs/a")).text).toBe("3");
    server.objects.delete("a");
    expect(await s3(server, "/jobs/a", { method: "PUT", headers: ifAbsent, body: "4" })).toMatchObject({
      status: 200,
    });
  }));

test("S3: any other value of the condition, and If-Match, are not implemented", () =>
  onS3(async (server) => {
    for (const [name, value] of [
      ["if-none-match", '"etag"'],
      ["if-match", "*"],
    ] as const) {
      const put = await s3(server, "/jobs/a", { method: "PUT", headers: { [name]: value }, body: "1" });
      expect(put).toMatchObject({ status: 501, code: "NotImplemented" });
    }
    expect(server.objects.size).toBe(0);
  }));

test("S3: of conditional puts at the same time one stores, and the others are answered with 412 or 409", () =>
  onS3(async (server) => {
    const puts = Array.from({ length: 20 }, (_, at) =>
      s3(server, "/jobs/a", { method: "PUT", headers: ifAbsent, body: String(at) }),
    );
    const answers = await Promise.all(puts);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    for (const { status, code } of answers)
      expect([
        [200, null],
        [412, "PreconditionFailed"],
        [409, "ConditionalRequestConflict"],
      ]).toContainEqual([status, code]);
  }));

test("S3: a condition that is not signed, or a signed request that was changed, does nothing", () =>
  onS3(async (server) => {
    const put = { method: "PUT", body: "1" } as const;
    const cases: readonly (readonly [Sent, string])[] = [
      [{ ...put, unsigned: ifAbsent }, "AccessDenied"],
      [{ ...put, unsigned: { "x-amz-acl": "public-read" } }, "AccessDenied"],
      [{ ...put, forged: { target: "/jobs/b" } }, "SignatureDoesNotMatch"],
      [{ ...put, forged: { target: "/jobs/a?list-type=2" } }, "SignatureDoesNotMatch"],
      [{ ...put, forged: { body: "2" } }, "XAmzContentSHA256Mismatch"],
      [{ ...put, headers: { "x-amz-acl": "public-read" } }, "NotImplemented"],
    ];
    for (const [sent, code] of cases) expect((await s3(server, "/jobs/a", sent)).code).toBe(code);
    expect((await fetch(`${server.url}/jobs/a`)).status).toBe(403);
    expect(server.objects.size).toBe(0);
  }));

test("S3: storage that ignores the condition, and storage that does not know it", async () => {
  const twice = async (server: S3Server): Promise<(number | undefined)[]> => {
    const put = { method: "PUT", headers: ifAbsent, body: "1" } as const;
    return [(await s3(server, "/jobs/a", put)).status, (await s3(server, "/jobs/a", put)).status];
  };
  await onS3(async (server) => expect(await twice(server)).toEqual([200, 200]), { conditions: "ignored" });
  await onS3(async (server) => expect(await twice(server)).toEqual([501, 501]), { conditions: "refused" });
});

test("S3: a missing bucket and a missing object have codes of their own; unknown parameters are errors", () =>
  onS3(async (server) => {
    expect(await s3(server, "/jobs/a")).toMatchObject({ status: 404, code: "NoSuchKey" });
    expect(await s3(server, "/other/a")).toMatchObject({ status: 404, code: "NoSuchBucket" });
    expect(await s3(server, "/jobs/a?versionId=1")).toMatchObject({ status: 400 });
    expect(await s3(server, "/jobs/")).toMatchObject({ status: 400 });
    expect(await s3(server, "/jobs/a", { method: "DELETE" })).toMatchObject({ status: 405 });
  }));

test("S3: a list is in byte order and ends a page where it was told to", () =>
  onS3(async (server) => {
    for (const key of ["b", "B", "a/1", "a-1", "a"]) server.objects.set(key, Buffer.from("x"));
    const keysOf = (text: string): string[] =>
      [...text.matchAll(/<Key>([^<]*)</g)].map(([, key]) => key as string);
    const first = await s3(server, "/jobs/?list-type=2&max-keys=3&prefix=");
    expect(keysOf(first.text)).toEqual(["B", "a", "a-1"]);
    expect(first.text).toContain("<IsTruncated>true<");
    const token = /<NextContinuationToken>([^<]+)</.exec(first.text)?.[1] as string;
    const second = await s3(server, `/jobs/?continuation-token=${token}&list-type=2&start-after=zzz`);
    expect(keysOf(second.text)).toEqual(["a/1", "b"]);
    expect(keysOf((await s3(server, "/jobs/?list-type=2&start-after=a-1")).text)).toEqual(["a/1", "b"]);
  }));

test("S3: many are removed at once only with the digest of the list", () =>
  onS3(async (server) => {
    server.objects.set("a", Buffer.from("x"));
    const body =
      "<Delete><Quiet>true</Quiet><Object><Key>a</Key></Object><Object><Key>b</Key></Object></Delete>";
    const digest = createHash("md5").update(body).digest("base64");
    const post = (headers: Record<string, string>) =>
      s3(server, "/jobs/?delete=", { method: "POST", headers, body });
    expect(await post({})).toMatchObject({ status: 400, code: "InvalidRequest" });
    expect(await post({ "content-md5": "AAAA" })).toMatchObject({ status: 400, code: "BadDigest" });
    expect(server.objects.size).toBe(1);
    expect(await post({ "content-md5": digest })).toMatchObject({ status: 200 });
    expect(server.objects.size).toBe(0);
  }));

test("Google Cloud Storage: ifGenerationMatch=0 stores once, other generations are refused, and nothing without a token", async () => {
  const closed = await openGcsServer();
  const upload = (url: string, query: string, body: string): Promise<Response> =>
    fetch(`${url}/upload/storage/v1/b/jobs/o?uploadType=media&name=a${query}`, { method: "POST", body });
  expect((await upload(closed.url, "", "1")).status).toBe(401);
  const forged = new URLSearchParams({
    grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
    assertion: "e30.e30.AAAA",
  });
  expect((await fetch(`${closed.url}/token`, { method: "POST", body: forged })).status).toBe(400);
  expect(closed.objects.size).toBe(0);
  await closed.close();
  const open = await openGcsServer({ isOpen: true });
  expect((await upload(open.url, "&ifGenerationMatch=0", "1")).status).toBe(200);
  expect((await upload(open.url, "&ifGenerationMatch=0", "2")).status).toBe(412);
  expect((await upload(open.url, "&ifGenerationMatch=7", "3")).status).toBe(400);
  expect((await upload(open.url, "&ifNoneMatch=0", "3")).status).toBe(400);
  expect(open.objects.get("a")?.toString()).toBe("1");
  expect((await upload(open.url, "", "4")).status).toBe(200);
  expect(open.objects.get("a")?.toString()).toBe("4");
  await open.close();
});
