/**
 * Objects in a bucket of Google Cloud Storage, by its JSON interface.
 *
 *   put     an upload of media, with ifGenerationMatch=0 if absent; 412: it exists
 *   list    startOffset begins with the name itself, so that one is dropped
 *   remove  one request per object, some at once
 */
import type { HttpReply, HttpRequest } from "../../../platform/http-exchange.ts";
import type { Platform } from "../../../platform/platform.ts";
import type { GcsCredentials } from "../../../store/objects.ts";
import { CredentialSource } from "./credential-source.ts";
import { gcsDeletionRules } from "./deletion-rules.ts";
import { googleCredentials } from "./google-token.ts";
import * as http from "./http-service.ts";
import type { Meaning, Verb } from "./http-service.ts";
import { checkName } from "./objects.ts";
import type { NamePage, Objects } from "./objects.ts";

export interface GcsOptions {
  readonly platform: Platform;
  readonly bucket: string;
  /** "" or a path that ends with a slash. */
  readonly prefix: string;
  /** Default: STORAGE_EMULATOR_HOST, which is asked without credentials, else Google's own. */
  readonly endpoint?: string | undefined;
  /** Default: the key file that GOOGLE_APPLICATION_CREDENTIALS names. */
  readonly credentials?: (() => Promise<GcsCredentials>) | undefined;
  /** Names per page of a list; for tests. */
  readonly pageSize?: number;
}

const pageSizeMax = 1000;
const deletesAtOnce = 16;

/** The reasons that its errors give. */
const meanings: Readonly<Record<string, Meaning>> = {
  ...{ rateLimitExceeded: http.slowDown, userRateLimitExceeded: http.slowDown, backendError: http.busy },
  ...{ authError: http.wrongKey, forbidden: http.denied, noSuchBucket: http.noBucket },
};

export function openGcs(options: GcsOptions): Objects {
  return new GcsObjects(options);
}

class GcsObjects implements Objects {
  readonly #service: http.HttpService<GcsCredentials>;
  readonly #base: URL;
  readonly #bucket: string;
  readonly #prefix: string;
  readonly #pageSize: number;

  constructor(options: GcsOptions) {
    const { platform, bucket, prefix, endpoint, credentials } = options;
    const emulator = endpoint === undefined ? platform.readEnv("STORAGE_EMULATOR_HOST") : undefined;
    this.#base = http.endpointUrl(endpoint ?? emulator ?? "https://storage.googleapis.com");
    this.#bucket = bucket;
    this.#prefix = prefix;
    this.#pageSize = options.pageSize ?? pageSizeMax;
    const isOpen = emulator !== undefined && credentials === undefined;
    this.#service = new http.HttpService<GcsCredentials>({
      platform,
      shown: `gs://${bucket}/${prefix}`,
      credentials: isOpen
        ? null
        : new CredentialSource(platform, credentials ?? googleCredentials(platform), [["accessToken"]]),
      sign: (request, { accessToken }) => ({
        ...request,
        headers: { ...request.headers, authorization: `Bearer ${accessToken}` },
      }),
      codeOf: reasonOf,
      meanings,
    });
  }

  async put(name: string, bytes: Uint8Array, ifAbsent: boolean): Promise<"stored" | "exists"> {
    const verb = { what: `put ${name}`, isWrite: true, isConditional: ifAbsent };
    const url = http.withQuery(this.#urlOf("upload/storage/v1/b/", "/o"), {
      ...{ uploadType: "media", name: this.#prefix + checkName(name) },
      ...(ifAbsent ? { ifGenerationMatch: "0" } : {}),
    });
    const headers = { "content-type": "application/octet-stream" };
    const reply = await this.#send({ method: "POST", url, headers, body: bytes }, verb);
    if (reply.status === 200) return "stored";
    if (reply.status === 412 && ifAbsent) return "exists";
    throw this.#failed(reply, verb);
  }

  async get(name: string): Promise<Uint8Array | null> {
    const verb = { what: `get ${name}`, isWrite: false };
    const url = http.withQuery(this.#objectUrl(name), { alt: "media" });
    const reply = await this.#send({ method: "GET", url, headers: {}, body: null }, verb);
    if (reply.status === 200) return reply.body;
    if (reply.status === 404 && (await this.#hasBucket(reply))) return null;
    throw this.#failed(reply, verb);
  }

  async list(prefix: string, after: string | null): Promise<NamePage> {
    const verb = { what: `list ${prefix}`, isWrite: false };
    for (let token: string | null = null; ;) {
      const url = http.withQuery(this.#urlOf("storage/v1/b/", "/o"), {
        ...{ prefix: this.#prefix + prefix, maxResults: String(this.#pageSize) },
        fields: "items(name),nextPageToken",
        ...(after === null ? {} : { startOffset: this.#prefix + after }),
        ...(token === null ? {} : { pageToken: token }),
      });
      const reply: HttpReply = await this.#send({ method: "GET", url, headers: {}, body: null }, verb);
      const page = reply.status === 200 ? pageOf(reply) : null;
      if (page === null) throw this.#failed(reply, verb);
      const names = page.names
        .map((name) => name.slice(this.#prefix.length))
        .filter((name) => name !== after);
      token = page.token;
      if (token === null || names.length > 0) return { names, isLast: token === null };
    }
  }

  async remove(names: readonly string[]): Promise<void> {
    for (const name of names) checkName(name);
    await http.inLanes(names, deletesAtOnce, (name) => this.#removeOne(name));
  }

  async #removeOne(name: string): Promise<void> {
    const verb = { what: `remove ${name}`, isWrite: true };
    const reply = await this.#send(
      { method: "DELETE", url: this.#objectUrl(name), headers: {}, body: null },
      verb,
    );
    if (reply.status === 204 || reply.status === 200) return;
    if (reply.status === 404 && (await this.#hasBucket(reply))) return;
    throw this.#failed(reply, verb);
  }

  async deletionRules(): Promise<readonly string[] | null> {
    const url = http.withQuery(this.#urlOf("storage/v1/b/", ""), { fields: "lifecycle" });
    const verb = { what: "read the lifecycle rules", isWrite: false };
    const reply = await this.#send({ method: "GET", url, headers: {}, body: null }, verb);
    const bucket = reply.status === 200 ? jsonOf(reply) : null;
    if (typeof bucket !== "object" || bucket === null) return null;
    return gcsDeletionRules(bucket, this.#prefix);
  }

  close(): Promise<void> {
    return this.#service.close();
  }

  /** Whether a 404 was for the object. Only the service's sentence says so; without one a list does. */
  async #hasBucket(reply: HttpReply): Promise<boolean> {
    const text = http.textOf(reply);
    if (text.includes("No such object")) return true;
    if (text.includes("bucket does not exist")) return false;
    const url = http.withQuery(this.#urlOf("storage/v1/b/", "/o"), { maxResults: "1" });
    const verb = { what: "list", isWrite: false };
    const list = await this.#send({ method: "GET", url, headers: {}, body: null }, verb);
    if (list.status === 404) return false;
    if (list.status === 200 && pageOf(list) !== null) return true;
    throw this.#failed(list, verb);
  }

  #failed(reply: HttpReply, verb: Verb): Error {
    return this.#service.failed(reply, verb);
  }

  #send(request: HttpRequest, verb: Verb): Promise<HttpReply> {
    return this.#service.send(request, verb);
  }

  #urlOf(before: string, after: string): URL {
    const url = new URL(this.#base);
    url.pathname += `${before}${http.encodeSegment(this.#bucket)}${after}`;
    return url;
  }

  #objectUrl(name: string): URL {
    return this.#urlOf("storage/v1/b/", `/o/${http.encodeSegment(this.#prefix + checkName(name))}`);
  }
}

/** The first reason of an error; a 404 that is not about an object is about the bucket. */
function reasonOf(reply: HttpReply): string | null {
  if (reply.status === 404) return "noSuchBucket";
  const { error } = (jsonOf(reply) ?? {}) as { error?: { errors?: readonly { reason?: unknown }[] } };
  const reason = error?.errors?.[0]?.reason;
  return typeof reason === "string" ? http.plainCode(reason) : null;
}

function pageOf(reply: HttpReply): { names: readonly string[]; token: string | null } | null {
  const json = jsonOf(reply) as { items?: readonly { name: string }[]; nextPageToken?: string } | null;
  if (json === null || typeof json !== "object") return null;
  return { names: (json.items ?? []).map(({ name }) => name), token: json.nextPageToken ?? null };
}

function jsonOf(reply: HttpReply): unknown {
  try {
    return JSON.parse(http.textOf(reply));
  } catch {
    return null;
  }
}
