/**
 * A small strict S3 server in memory, for tests: the requests that a client of ours may make, and nothing else. It is
 * written from the protocol and not from our client, so it checks signatures by itself, from the bytes of the request.
 *
 *   - Every header x-amz-*, Host and If-None-Match must be signed, the body must have the digest that was signed, and
 *     the request must be at most 15 minutes old.
 *   - If-None-Match takes only "*". Of conditional puts of one key at the same time some are answered with 409.
 *   - Unknown parameters, headers and methods are errors.
 */
import { createHash, createHmac } from "node:crypto";
import type { ServerResponse } from "node:http";
import { serveHttp, serverAt } from "./http-server.ts";
import type { HttpServer, WholeRequest } from "./http-server.ts";

export interface S3ServerOptions {
  readonly bucket?: string;
  readonly accessKeyId?: string;
  readonly secretAccessKey?: string;
  /** Only with this token, if it is given; another one has expired. */
  readonly sessionToken?: string;
  readonly region?: string;
  /** Its clock; that of the tests unless another one is given. */
  readonly now?: () => number;
  /** What a condition does: as S3, not looked at, or not known and refused. */
  readonly conditions?: "kept" | "ignored" | "refused";
  /** The rules of the bucket's lifecycle as XML; "" for none, and without it nobody may read them. */
  readonly lifecycle?: string;
}

export interface S3Server extends HttpServer {
  readonly objects: Map<string, Buffer>;
  readonly bucket: string;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly extra: string;

  constructor(status: number, code: string, extra = "") {
    super(code);
    this.status = status;
    this.code = code;
    this.extra = extra;
  }
}

const keysMax = 1000;
const skewMs = 15 * 60_000;
const queries: Readonly<Record<string, readonly string[]>> = {
  list: ["list-type", "prefix", "start-after", "max-keys", "continuation-token"],
  delete: ["delete"],
  lifecycle: ["lifecycle"],
  object: [],
};
const amazonHeaders = ["x-amz-content-sha256", "x-amz-date", "x-amz-security-token"];

export async function openS3Server(options: S3ServerOptions = {}): Promise<S3Server> {
  const { bucket = "jobs", region = "us-east-1", accessKeyId = "AKIDTEST", conditions = "kept" } = options;
  const secretAccessKey = options.secretAccessKey ?? "a/secret+that nobody=may see";
  const objects = new Map<string, Buffer>();
  /** Conditional puts whose body is still on the way, by their target. */
  const underway = new Map<string, number>();

  const answer = (request: WholeRequest, response: ServerResponse, isRaced: boolean): void => {
    const { sessionToken, now = () => serverAt } = options;
    checkSignature(request, { accessKeyId, secretAccessKey, region, sessionToken, now: now() });
    const url = new URL(request.target, "http://server");
    const [, first = "", ...rest] = url.pathname.split("/").map(decodeURIComponent);
    if (first !== bucket) throw new Refusal(404, "NoSuchBucket", `<BucketName>${first}</BucketName>`);
    const key = rest.join("/");
    if (Buffer.byteLength(key) > 1024) throw new Refusal(400, "KeyTooLongError");
    const { method } = request;
    if (key === "" && method === "GET" && url.searchParams.has("lifecycle")) return rules(url, response);
    if (key === "" && method === "GET") return list(url, response);
    if (key === "" && method === "POST") return removeMany(request, url, response);
    onlyParameters(url, "object");
    if (key !== "" && method === "GET") {
      const found = objects.get(key);
      if (found === undefined) throw new Refusal(404, "NoSuchKey", `<Key>${escaped(key)}</Key>`);
      response.writeHead(200, { "content-length": found.length });
      response.end(found);
    } else if (key !== "" && method === "PUT") {
      put(request, key, isRaced);
      response.writeHead(200, { etag: `"${createHash("md5").update(request.body).digest("hex")}"` });
      response.end();
    } else throw new Refusal(405, "MethodNotAllowed");
  };

  const rules = (url: URL, response: ServerResponse): void => {
    onlyParameters(url, "lifecycle");
    const { lifecycle } = options;
    if (lifecycle === undefined) throw new Refusal(403, "AccessDenied");
    if (lifecycle === "") throw new Refusal(404, "NoSuchLifecycleConfiguration");
    xml(response, 200, ["<LifecycleConfiguration>", lifecycle, "</LifecycleConfiguration>"]);
  };

  const put = ({ headers, body }: WholeRequest, key: string, isRaced: boolean): void => {
    const condition = headers["if-none-match"];
    if (headers["if-match"] !== undefined) throw new Refusal(501, "NotImplemented");
    if (headers["content-length"] === undefined) throw new Refusal(411, "MissingContentLength");
    if (condition !== undefined && conditions !== "ignored") {
      if (condition !== "*" || conditions === "refused") throw new Refusal(501, "NotImplemented");
      if (objects.has(key))
        throw new Refusal(412, "PreconditionFailed", "<Condition>If-None-Match</Condition>");
      if (isRaced)
        throw new Refusal(409, "ConditionalRequestConflict", "<Condition>If-None-Match</Condition>");
    }
    objects.set(key, Buffer.from(body));
  };

  const list = (url: URL, response: ServerResponse): void => {
    onlyParameters(url, "list");
    const query = url.searchParams;
    if (query.get("list-type") !== "2") throw new Refusal(400, "InvalidArgument");
    const max = Number(query.get("max-keys") ?? keysMax);
    if (!Number.isInteger(max) || max < 1) throw new Refusal(400, "InvalidArgument");
    const token = query.get("continuation-token");
    const after =
      token === null ? (query.get("start-after") ?? "") : Buffer.from(token, "base64url").toString();
    const prefix = query.get("prefix") ?? "";
    const order = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));
    const keys = [...objects.keys()]
      .filter((key) => key.startsWith(prefix) && order(key, after) > 0)
      .sort(order);
    const page = keys.slice(0, Math.min(max, keysMax));
    const isTruncated = page.length < keys.length;
    const contents = page.map((key) => `<Contents><Key>${escaped(key)}</Key><Size>1</Size></Contents>`);
    const next = Buffer.from(page.at(-1) ?? "").toString("base64url");
    xml(response, 200, [
      `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>${bucket}</Name>`,
      `<KeyCount>${page.length}</KeyCount><IsTruncated>${isTruncated}</IsTruncated>`,
      ...(isTruncated ? [`<NextContinuationToken>${next}</NextContinuationToken>`] : []),
      ...[...contents, "</ListBucketResult>"],
    ]);
  };

  const removeMany = ({ headers, body }: WholeRequest, url: URL, response: ServerResponse): void => {
    onlyParameters(url, "delete");
    if (!url.searchParams.has("delete")) throw new Refusal(405, "MethodNotAllowed");
    const digest = headers["content-md5"];
    if (digest === undefined) throw new Refusal(400, "InvalidRequest");
    if (digest !== createHash("md5").update(body).digest("base64")) throw new Refusal(400, "BadDigest");
    const text = body.toString();
    if (!/^<Delete>(<Quiet>true<\/Quiet>)?(<Object><Key>[^<]+<\/Key><\/Object>)+<\/Delete>$/.test(text))
      throw new Refusal(400, "MalformedXML");
    const keys = [...text.matchAll(/<Key>([^<]+)<\/Key>/g)].map(([, key]) => unescaped(key as string));
    if (keys.length > keysMax) throw new Refusal(400, "MalformedXML");
    for (const key of keys) objects.delete(key);
    xml(response, 200, ['<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></DeleteResult>']);
  };

  const server = await serveHttp(({ method, target, headers }) => {
    const isConditional = method === "PUT" && headers["if-none-match"] === "*";
    const before = underway.get(target) ?? 0;
    if (isConditional) underway.set(target, before + 1);
    return (request, response) => {
      if (isConditional) underway.set(target, (underway.get(target) as number) - 1);
      try {
        answer(request, response, before > 0);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        const { status, code, extra } = error;
        xml(response, status, [`<Error><Code>${code}</Code><Message>No.</Message>${extra}</Error>`]);
      }
    };
  });
  return { ...server, objects, bucket, region, accessKeyId, secretAccessKey };
}

interface Secrets {
  readonly now: number;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly region: string;
  readonly sessionToken: string | undefined;
}

function checkSignature({ method, target, headers, body }: WholeRequest, secrets: Secrets): void {
  const { accessKeyId, secretAccessKey, region, sessionToken, now } = secrets;
  const [, key, scope, names, signature] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/([^,]+), ?SignedHeaders=([^,]+), ?Signature=([\da-f]{64})$/.exec(
      headers.authorization ?? "",
    ) ?? [];
  if (key === undefined || names === undefined) throw new Refusal(403, "AccessDenied");
  if (key !== accessKeyId)
    throw new Refusal(403, "InvalidAccessKeyId", `<AWSAccessKeyId>${key}</AWSAccessKeyId>`);
  if (sessionToken !== headers["x-amz-security-token"]) throw new Refusal(400, "ExpiredToken");
  const at = String(headers["x-amz-date"]);
  if (scope !== `${at.slice(0, 8)}/${region}/s3/aws4_request`)
    throw new Refusal(400, "AuthorizationHeaderMalformed");
  const sentAt = Date.parse(at.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"));
  if (!(Math.abs(sentAt - now) < skewMs)) throw new Refusal(403, "RequestTimeTooSkewed");
  const signed = names.split(";");
  const mustSign = Object.keys(headers).filter(
    (name) => name.startsWith("x-amz-") || name === "if-none-match",
  );
  if (!["host", ...mustSign].every((name) => signed.includes(name))) throw new Refusal(403, "AccessDenied");
  if (mustSign.some((name) => name.startsWith("x-amz-") && !amazonHeaders.includes(name)))
    throw new Refusal(501, "NotImplemented");
  const bodyDigest = createHash("sha256").update(body).digest("hex");
  if (headers["x-amz-content-sha256"] !== bodyDigest) throw new Refusal(400, "XAmzContentSHA256Mismatch");
  const [path, query = ""] = target.split("?");
  // A name without "=" counts as one with an empty value.
  const parameters = query === "" ? [] : query.split("&").map((one) => (one.includes("=") ? one : `${one}=`));
  const lines = signed.map((name) => `${name}:${String(headers[name] ?? "").trim()}\n`).join("");
  const canonical = [method, path, parameters.sort().join("&"), lines, names, bodyDigest].join("\n");
  const text = `AWS4-HMAC-SHA256\n${at}\n${scope}\n${createHash("sha256").update(canonical).digest("hex")}`;
  let secret: string | Buffer = `AWS4${secretAccessKey}`;
  for (const part of (scope as string).split("/"))
    secret = createHmac("sha256", secret).update(part).digest();
  const expected = createHmac("sha256", secret).update(text).digest("hex");
  if (expected !== signature)
    throw new Refusal(403, "SignatureDoesNotMatch", `<StringToSign>${escaped(text)}</StringToSign>`);
}

function onlyParameters(url: URL, of: string): void {
  for (const name of url.searchParams.keys())
    if (!queries[of]?.includes(name)) throw new Refusal(400, "InvalidArgument");
}

function xml(response: ServerResponse, status: number, parts: readonly string[]): void {
  const text = `<?xml version="1.0" encoding="UTF-8"?>\n${parts.join("")}`;
  response.writeHead(status, {
    "content-type": "application/xml",
    "content-length": Buffer.byteLength(text),
  });
  response.end(text);
}

function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&#39;");
}

function unescaped(text: string): string {
  return text
    .replace(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code)))
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&amp;", "&");
}
