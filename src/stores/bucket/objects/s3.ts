/**
 * Objects in a bucket of S3, or of anything that speaks its protocol: MinIO, Cloudflare R2, Tigris, Ceph.
 *
 *   put     PUT /name, with If-None-Match: * if absent. 412: it exists. 409: another put of the name is under way, and
 *           none of them may have won, so it is tried again.
 *   list    list-objects-v2 with start-after; the service lists in byte order (directory buckets do not: refused)
 *   remove  DeleteObjects, a thousand names at once
 */
import { createHash } from "node:crypto";
import type { HttpReply, HttpRequest } from "../../../platform/http-exchange.ts";
import type { Platform } from "../../../platform/platform.ts";
import type { S3Credentials } from "../../../store/objects.ts";
import { CredentialSource, noCredentials } from "./credential-source.ts";
import { s3DeletionRules } from "./deletion-rules.ts";
import * as http from "./http-service.ts";
import type { Meaning, Verb } from "./http-service.ts";
import { ObjectsError, checkName } from "./objects.ts";
import type { NamePage, Objects } from "./objects.ts";
import { signS3 } from "./s3-signature.ts";

export interface S3Options {
  readonly platform: Platform;
  readonly bucket: string;
  /** "" or a path that ends with a slash. */
  readonly prefix: string;
  /** Default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else Amazon's own for the region. */
  readonly endpoint?: string | undefined;
  /** Default: AWS_REGION, AWS_DEFAULT_REGION. */
  readonly region?: string | undefined;
  /** The bucket in the path, not in the host name. Default: true at an endpoint of your own. */
  readonly pathStyle?: boolean | undefined;
  readonly credentials?: (() => Promise<S3Credentials>) | undefined;
  /** Names per page of a list; for tests. */
  readonly pageSize?: number;
}

const pageSizeMax = 1000;
const deletesAtOnce = 1000;
/** Endpoints other than Amazon's take this one for their own. */
const anyRegion = "us-east-1";

const redirected: Meaning = {
  kind: "refused",
  sentence: "is in another region. Set AWS_REGION or bucket.region",
};
const meanings: Readonly<Record<string, Meaning>> = {
  NoSuchBucket: http.noBucket,
  AccessDenied: http.denied,
  ...{ InvalidAccessKeyId: http.wrongKey, SignatureDoesNotMatch: http.wrongKey, InvalidToken: http.wrongKey },
  ...{ ExpiredToken: http.expired, TokenRefreshRequired: http.expired },
  RequestTimeTooSkewed: http.skewed,
  ...{ SlowDown: http.slowDown, ServiceUnavailable: http.slowDown, RequestTimeout: http.slowDown },
  ...{ ConditionalRequestConflict: http.slowDown, OperationAborted: http.slowDown, InternalError: http.busy },
  ...{
    PermanentRedirect: redirected,
    TemporaryRedirect: redirected,
    AuthorizationHeaderMalformed: redirected,
  },
};

export function openS3(options: S3Options): Objects {
  return new S3Objects(options);
}

class S3Objects implements Objects {
  readonly #service: http.HttpService<S3Credentials>;
  readonly #base: URL;
  readonly #prefix: string;
  readonly #pageSize: number;

  constructor(options: S3Options) {
    const { platform, bucket, prefix } = options;
    if (bucket.endsWith("--x-s3")) {
      const sentence = `${bucket} is a directory bucket, which lists in no order; use a general purpose bucket`;
      throw new ObjectsError("refused", sentence);
    }
    const { base, region } = placeOf(options);
    this.#base = base;
    this.#prefix = prefix;
    this.#pageSize = options.pageSize ?? pageSizeMax;
    this.#service = new http.HttpService<S3Credentials>({
      platform,
      shown: `s3://${bucket}/${prefix}`,
      credentials: new CredentialSource(platform, options.credentials ?? fromEnvironment(platform), [
        ["accessKeyId", "secretAccessKey"],
      ]),
      sign: (request, credentials) => signS3(request, credentials, { region, now: platform.now() }),
      codeOf: (reply) => http.plainCode(http.xmlTexts(http.textOf(reply), "Code")[0]),
      meanings,
    });
  }

  async put(name: string, bytes: Uint8Array, ifAbsent: boolean): Promise<"stored" | "exists"> {
    const verb = { what: `put ${name}`, isWrite: true, isConditional: ifAbsent };
    const headers: Record<string, string> = ifAbsent ? { "if-none-match": "*" } : {};
    const reply = await this.#send({ method: "PUT", url: this.#urlOf(name), headers, body: bytes }, verb);
    if (reply.status === 200) return "stored";
    if (reply.status === 412 && ifAbsent) return "exists";
    // Whatever the code: the service takes back that it decided.
    if (reply.status === 409 && ifAbsent)
      throw new ObjectsError("busy", `another put of ${name} is under way`);
    throw this.#service.failed(reply, verb);
  }

  async get(name: string): Promise<Uint8Array | null> {
    const verb = { what: `get ${name}`, isWrite: false };
    const reply = await this.#send({ method: "GET", url: this.#urlOf(name), headers: {}, body: null }, verb);
    if (reply.status === 200) return reply.body;
    // Only the code distinguishes a missing object from a missing bucket, or from the page of some proxy.
    if (reply.status === 404 && codeOf(reply) === "NoSuchKey") return null;
    throw this.#service.failed(reply, verb);
  }

  async list(prefix: string, after: string | null): Promise<NamePage> {
    const verb = { what: `list ${prefix}`, isWrite: false };
    const begin: Record<string, string> = after === null ? {} : { "start-after": this.#prefix + after };
    for (let from = begin; ;) {
      const query = {
        "list-type": "2",
        "max-keys": String(this.#pageSize),
        prefix: this.#prefix + prefix,
        ...from,
      };
      const reply = await this.#send(
        { method: "GET", url: http.withQuery(this.#base, query), headers: {}, body: null },
        verb,
      );
      const xml = http.textOf(reply);
      if (reply.status !== 200 || !xml.includes("<ListBucketResult")) throw this.#service.failed(reply, verb);
      const names = http.xmlTexts(xml, "Key").map((key) => key.slice(this.#prefix.length));
      const isLast = http.xmlTexts(xml, "IsTruncated")[0] !== "true";
      if (isLast || names.length > 0) return { names, isLast };
      from = { "continuation-token": http.xmlTexts(xml, "NextContinuationToken")[0] ?? "" };
    }
  }

  async remove(names: readonly string[]): Promise<void> {
    for (let at = 0; at < names.length; at += deletesAtOnce)
      await this.#removeSome(names.slice(at, at + deletesAtOnce));
  }

  async #removeSome(names: readonly string[]): Promise<void> {
    const verb = { what: `remove ${names.length} objects`, isWrite: true };
    const keys = names.map(
      (name) => `<Object><Key>${escaped(this.#prefix + checkName(name))}</Key></Object>`,
    );
    const body = new TextEncoder().encode(`<Delete><Quiet>true</Quiet>${keys.join("")}</Delete>`);
    // The service demands a digest of this body, and this one is known everywhere.
    const headers = { "content-md5": createHash("md5").update(body).digest("base64") };
    const reply = await this.#send(
      { method: "POST", url: http.withQuery(this.#base, { delete: "" }), headers, body },
      verb,
    );
    const xml = http.textOf(reply);
    if (reply.status !== 200 || !xml.includes("<DeleteResult")) throw this.#service.failed(reply, verb);
    const code = http.xmlTexts(xml, "Code").find((one) => one !== "NoSuchKey");
    if (code === undefined) return;
    const plain = http.plainCode(code);
    const { kind, sentence } = this.#service.meaningOf(reply, plain);
    throw new ObjectsError(kind, `the bucket ${sentence} (${verb.what}, ${plain})`, { outcome: "unknown" });
  }

  async deletionRules(): Promise<readonly string[] | null> {
    const verb = { what: "read the lifecycle rules", isWrite: false };
    const url = http.withQuery(this.#base, { lifecycle: "" });
    const reply = await this.#send({ method: "GET", url, headers: {}, body: null }, verb);
    if (reply.status === 200) return s3DeletionRules(http.textOf(reply), this.#prefix);
    return codeOf(reply) === "NoSuchLifecycleConfiguration" ? [] : null;
  }

  close(): Promise<void> {
    return this.#service.close();
  }

  #send(request: HttpRequest, verb: Verb): Promise<HttpReply> {
    return this.#service.send(request, verb);
  }

  #urlOf(name: string): URL {
    const url = new URL(this.#base);
    url.pathname += http.encodePath(this.#prefix + checkName(name));
    return url;
  }
}

const codeOf = (reply: HttpReply): string | undefined => http.xmlTexts(http.textOf(reply), "Code")[0];

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** The URL that object names are appended to. */
function placeOf({ platform, bucket, endpoint, region, pathStyle }: S3Options): {
  base: URL;
  region: string;
} {
  const env = (name: string): string | undefined => platform.readEnv(name);
  const given = endpoint ?? env("AWS_ENDPOINT_URL_S3") ?? env("AWS_ENDPOINT_URL");
  const named = region ?? env("AWS_REGION") ?? env("AWS_DEFAULT_REGION");
  if (given === undefined && named === undefined) {
    const sentence = `the region of s3://${bucket} is not known: set AWS_REGION or bucket.region, or name an endpoint`;
    throw new ObjectsError("refused", sentence);
  }
  const known = named ?? anyRegion;
  const domain = known.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  const base = http.endpointUrl(given ?? `https://s3.${known}.${domain}`);
  // A certificate for *.s3.<region> does not cover a name with dots.
  const isInPath = pathStyle ?? (given !== undefined || bucket.includes("."));
  if (isInPath) base.pathname += `${http.encodeSegment(bucket)}/`;
  else base.hostname = `${bucket}.${base.hostname}`;
  return { base, region: known };
}

function fromEnvironment(platform: Platform): () => Promise<S3Credentials> {
  return async () => {
    const accessKeyId = platform.readEnv("AWS_ACCESS_KEY_ID");
    const secretAccessKey = platform.readEnv("AWS_SECRET_ACCESS_KEY");
    if (accessKeyId === undefined || secretAccessKey === undefined)
      throw noCredentials("S3", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
    return { accessKeyId, secretAccessKey, sessionToken: platform.readEnv("AWS_SESSION_TOKEN") };
  };
}
