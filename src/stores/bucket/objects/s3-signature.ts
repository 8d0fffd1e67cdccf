/** AWS Signature Version 4 for S3 requests with a known body; checked against the examples that AWS publishes. */
import { createHash, createHmac } from "node:crypto";
import type { HttpRequest } from "../../../platform/http-exchange.ts";
import type { S3Credentials } from "../../../store/objects.ts";
import { canonicalQuery } from "./http-service.ts";

export interface SigningPlace {
  readonly region: string;
  /** Epoch milliseconds. */
  readonly now: number;
}

export function signS3(
  request: HttpRequest,
  { accessKeyId, secretAccessKey, sessionToken }: S3Credentials,
  { region, now }: SigningPlace,
): HttpRequest {
  const at = new Date(now).toISOString().replace(/[-:]|\.\d+/g, "");
  const day = at.slice(0, 8);
  const bodyHash = sha256(request.body ?? "");
  const headers: Record<string, string> = {
    ...request.headers,
    "x-amz-content-sha256": bodyHash,
    "x-amz-date": at,
    ...(sessionToken === undefined ? {} : { "x-amz-security-token": sessionToken }),
  };
  const signed: [name: string, value: string][] = Object.entries({ ...headers, host: request.url.host });
  signed.sort(([a], [b]) => (a < b ? -1 : 1));
  const names = signed.map(([name]) => name).join(";");
  const canonical = [
    request.method,
    request.url.pathname,
    canonicalQuery(request.url.searchParams),
    ...signed.map(([name, value]) => `${name}:${value.trim()}`),
    "",
    names,
    bodyHash,
  ].join("\n");
  const scope = `${day}/${region}/s3/aws4_request`;
  const text = ["AWS4-HMAC-SHA256", at, scope, sha256(canonical)].join("\n");
  const signature = hmac(signingKey(secretAccessKey, day, region), text).toString("hex");
  const authorization = `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope},SignedHeaders=${names},Signature=${signature}`;
  return { ...request, headers: { ...headers, authorization } };
}

function signingKey(secret: string, day: string, region: string): Buffer {
  let key = Buffer.from(`AWS4${secret}`) as Buffer;
  for (const part of [day, region, "s3", "aws4_request"]) key = hmac(key, part);
  return key;
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}

function sha256(bytes: Uint8Array | string): string {
  return createHash("sha256").update(bytes).digest("hex");
}
