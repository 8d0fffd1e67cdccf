/** What proves to Azure Blob who asks: the account's key (Shared Key), a shared access signature, or a bearer token. */
import { createHmac } from "node:crypto";
import type { HttpRequest } from "../../../platform/http-exchange.ts";
import type { AzureCredentials } from "../../../store/objects.ts";
import { withQuery } from "./http-service.ts";
import { ObjectsError } from "./objects.ts";

/** Of the protocol; the rules for signing depend on it. */
export const serviceVersion = "2021-12-02";

export interface SigningPlace {
  readonly account: string;
  /** Epoch milliseconds. */
  readonly now: number;
}

export function signAzure(request: HttpRequest, given: AzureCredentials, place: SigningPlace): HttpRequest {
  const { accountKey, sasToken, accessToken } = given;
  const headers = { ...request.headers, "x-ms-date": new Date(place.now).toUTCString() };
  if (accountKey !== undefined) {
    const text = textToSign({ ...request, headers }, place.account);
    const signature = createHmac("sha256", Buffer.from(accountKey, "base64")).update(text).digest("base64");
    return { ...request, headers: { ...headers, authorization: `SharedKey ${place.account}:${signature}` } };
  }
  if (accessToken !== undefined)
    return { ...request, headers: { ...headers, authorization: `Bearer ${accessToken}` } };
  const parameters = new URLSearchParams(sasToken);
  const end = Date.parse(parameters.get("se") ?? "");
  if (end <= place.now)
    throw new ObjectsError("denied", "the shared access signature (SAS) has expired. Make a new one");
  const url = withQuery(request.url, Object.fromEntries([...request.url.searchParams, ...parameters]));
  return { ...request, url, headers };
}

/** Standard headers by their place, then the service's own headers, then the account, the path and the query. */
function textToSign({ method, url, headers, body }: HttpRequest, account: string): string {
  const length = body === null || body.length === 0 ? "" : String(body.length);
  const own = Object.entries(headers)
    .filter(([name]) => name.startsWith("x-ms-"))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}:${value}`);
  const query = [...url.searchParams]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}:${value}`);
  return [
    method,
    // Content-Encoding, Content-Language, the length, Content-MD5, Content-Type, Date, If-Modified-Since, If-Match.
    ...["", "", length, "", "", "", "", ""],
    headers["if-none-match"] ?? "",
    // If-Unmodified-Since, Range.
    ...["", ""],
    ...own,
    [`/${account}${url.pathname}`, ...query].join("\n"),
  ].join("\n");
}
