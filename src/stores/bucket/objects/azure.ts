/**
 * Objects in a container of Azure Blob Storage, as block blobs.
 *
 *   put     Put Blob, with If-None-Match: * if absent. 409 BlobAlreadyExists and 412 both mean that it exists.
 *   list    The service continues only after a marker of its own. The markers of the last pages are kept by the name
 *           that ended them, so a caller who asks page after page costs one request each. For any other name the list
 *           begins again at the prefix, and the names up to that one are passed over.
 *   remove  one request per blob, some at once
 */
import type { HttpReply, HttpRequest } from "../../../platform/http-exchange.ts";
import type { Platform } from "../../../platform/platform.ts";
import type { AzureCredentials } from "../../../store/objects.ts";
import { readAzurePlace } from "./azure-place.ts";
import { serviceVersion, signAzure } from "./azure-signature.ts";
import { CredentialSource } from "./credential-source.ts";
import * as http from "./http-service.ts";
import type { Meaning } from "./http-service.ts";
import { checkName } from "./objects.ts";
import type { NamePage, Objects } from "./objects.ts";

export interface AzureOptions {
  readonly platform: Platform;
  readonly container: string;
  /** "" or a path that ends with a slash. */
  readonly prefix: string;
  /** Default: that of AZURE_STORAGE_CONNECTION_STRING, else AZURE_STORAGE_ACCOUNT. */
  readonly account?: string | undefined;
  /** Default: that of the connection string, else Azure's own for the account. */
  readonly endpoint?: string | undefined;
  readonly credentials?: (() => Promise<AzureCredentials>) | undefined;
  /** Names per page of a list; for tests. */
  readonly pageSize?: number;
}

const pageSizeMax = 5000;
const deletesAtOnce = 16;
const markersKept = 16;

const meanings: Readonly<Record<string, Meaning>> = {
  ...{
    ContainerNotFound: http.noBucket,
    ContainerBeingDeleted: http.noBucket,
    ResourceNotFound: http.noBucket,
  },
  ...{ AuthenticationFailed: http.wrongKey, InvalidAuthenticationInfo: http.wrongKey },
  ...{ ServerBusy: http.slowDown, OperationTimedOut: http.busy, InternalError: http.busy },
  BlobImmutableDueToPolicy: {
    kind: "refused",
    sentence: "has a policy that keeps its objects from being replaced",
  },
};

export function openAzure(options: AzureOptions): Objects {
  return new AzureObjects(options);
}

class AzureObjects implements Objects {
  readonly #service: http.HttpService<AzureCredentials>;
  readonly #base: URL;
  readonly #prefix: string;
  readonly #pageSize: number;
  /** By the prefix and the last name of a page, the marker of the next one. */
  readonly #markers = new Map<string, string>();

  constructor(options: AzureOptions) {
    const { platform, container, prefix } = options;
    const { account, endpoint, credentials } = readAzurePlace(options);
    this.#base = endpoint;
    this.#base.pathname += http.encodeSegment(container);
    this.#prefix = prefix;
    this.#pageSize = options.pageSize ?? pageSizeMax;
    this.#service = new http.HttpService<AzureCredentials>({
      platform,
      shown: `az://${container}/${prefix}`,
      credentials: new CredentialSource(platform, credentials, [
        ["accountKey"],
        ["sasToken"],
        ["accessToken"],
      ]),
      sign: (request, given) => signAzure(request, given, { account, now: platform.now() }),
      codeOf: azureCode,
      meanings,
    });
  }

  async put(name: string, bytes: Uint8Array, ifAbsent: boolean): Promise<"stored" | "exists"> {
    const verb = { what: `put ${name}`, isWrite: true, isConditional: ifAbsent };
    const headers = { "x-ms-blob-type": "BlockBlob", ...(ifAbsent ? { "if-none-match": "*" } : {}) };
    const reply = await this.#send({ method: "PUT", url: this.#urlOf(name), headers, body: bytes }, verb);
    if (reply.status === 201) return "stored";
    const code = azureCode(reply);
    const exists = code === "BlobAlreadyExists" || code === "ConditionNotMet";
    if (ifAbsent && exists) return "exists";
    throw this.#service.failed(reply, verb);
  }

  async get(name: string): Promise<Uint8Array | null> {
    const verb = { what: `get ${name}`, isWrite: false };
    const reply = await this.#send({ method: "GET", url: this.#urlOf(name), headers: {}, body: null }, verb);
    if (reply.status === 200) return reply.body;
    if (reply.status === 404 && azureCode(reply) === "BlobNotFound") return null;
    throw this.#service.failed(reply, verb);
  }

  async list(prefix: string, after: string | null): Promise<NamePage> {
    const verb = { what: `list ${prefix}`, isWrite: false };
    let marker = after === null ? "" : (this.#markers.get(`${prefix}\n${after}`) ?? "");
    for (;;) {
      const url = http.withQuery(this.#base, {
        ...{ restype: "container", comp: "list", prefix: this.#prefix + prefix },
        maxresults: String(this.#pageSize),
        ...(marker === "" ? {} : { marker }),
      });
      const reply = await this.#send({ method: "GET", url, headers: {}, body: null }, verb);
      const xml = http.textOf(reply);
      if (reply.status !== 200 || !xml.includes("<EnumerationResults"))
        throw this.#service.failed(reply, verb);
      const found = xml
        .split("<Blob>")
        .slice(1)
        .map((blob) => http.xmlTexts(blob, "Name")[0] ?? "");
      const names = found
        .map((name) => name.slice(this.#prefix.length))
        .filter((name) => after === null || name > after);
      marker = http.xmlTexts(xml, "NextMarker")[0] ?? "";
      const isLast = marker === "";
      if (!isLast && names.length === 0) continue;
      if (!isLast) this.#keepMarker(`${prefix}\n${names.at(-1)}`, marker);
      return { names, isLast };
    }
  }

  async remove(names: readonly string[]): Promise<void> {
    for (const name of names) checkName(name);
    await http.inLanes(names, deletesAtOnce, (name) => this.#removeOne(name));
  }

  async #removeOne(name: string): Promise<void> {
    const verb = { what: `remove ${name}`, isWrite: true };
    const headers = { "x-ms-delete-snapshots": "include" };
    const reply = await this.#send({ method: "DELETE", url: this.#urlOf(name), headers, body: null }, verb);
    if (reply.status === 202 || (reply.status === 404 && azureCode(reply) === "BlobNotFound")) return;
    throw this.#service.failed(reply, verb);
  }

  close(): Promise<void> {
    return this.#service.close();
  }

  #keepMarker(key: string, marker: string): void {
    this.#markers.delete(key);
    this.#markers.set(key, marker);
    const [oldest] = this.#markers.keys();
    if (this.#markers.size > markersKept) this.#markers.delete(oldest as string);
  }

  #send(request: HttpRequest, verb: http.Verb): Promise<HttpReply> {
    return this.#service.send(
      { ...request, headers: { ...request.headers, "x-ms-version": serviceVersion } },
      verb,
    );
  }

  #urlOf(name: string): URL {
    const url = new URL(this.#base);
    url.pathname += `/${http.encodePath(this.#prefix + checkName(name))}`;
    return url;
  }
}

const azureCode = ({ headers }: HttpReply): string | null => http.plainCode(headers.get("x-ms-error-code"));
