/**
 * Access tokens of Google for the key file that GOOGLE_APPLICATION_CREDENTIALS names: that of a service account, which
 * signs a statement about itself, or what `gcloud auth application-default login` leaves, which has a token to renew
 * with. Tokens hold for an hour.
 */
import { createSign } from "node:crypto";
import { readFile } from "node:fs/promises";
import { ExchangeFailed, exchange } from "../../../platform/http-exchange.ts";
import type { HttpReply } from "../../../platform/http-exchange.ts";
import type { Platform } from "../../../platform/platform.ts";
import type { GcsCredentials } from "../../../store/objects.ts";
import { noCredentials } from "./credential-source.ts";
import { endpointUrl, textOf } from "./http-service.ts";
import { ObjectsError } from "./objects.ts";

interface KeyFile {
  readonly type?: string;
  readonly token_uri?: string;
  readonly client_email?: string;
  readonly private_key?: string;
  readonly private_key_id?: string;
  readonly client_id?: string;
  readonly client_secret?: string;
  readonly refresh_token?: string;
}

const timeoutMs = 20_000;
const lifeS = 3600;
const scope = "https://www.googleapis.com/auth/devstorage.read_write";

export function googleCredentials(platform: Platform): () => Promise<GcsCredentials> {
  return async () => {
    const path = platform.readEnv("GOOGLE_APPLICATION_CREDENTIALS");
    if (path === undefined) throw noCredentials("Google Cloud Storage", "GOOGLE_APPLICATION_CREDENTIALS");
    const key = await readKeyFile(path);
    return askToken(platform, key, grantOf(platform, key, path));
  };
}

async function readKeyFile(path: string): Promise<KeyFile> {
  try {
    return JSON.parse(await readFile(path, "utf8")) as KeyFile;
  } catch {
    // Its text may be half a key, so it is no part of the error.
    throw new ObjectsError(
      "denied",
      `GOOGLE_APPLICATION_CREDENTIALS names ${path}, which is no readable JSON file`,
    );
  }
}

function tokenUrl(key: KeyFile): URL {
  const url = endpointUrl(key.token_uri ?? "https://oauth2.googleapis.com/token");
  url.pathname = url.pathname.replace(/\/$/, "");
  return url;
}

function grantOf(platform: Platform, key: KeyFile, path: string): Readonly<Record<string, string>> {
  const { type, client_email, private_key, client_id, client_secret, refresh_token } = key;
  if (type === "service_account" && client_email !== undefined && private_key !== undefined) {
    return {
      grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
      assertion: assertionOf({ ...key, client_email, private_key }, platform.now(), path),
    };
  }
  if (client_id !== undefined && client_secret !== undefined && refresh_token !== undefined)
    return { grant_type: "refresh_token", client_id, client_secret, refresh_token };
  const sentence = `the key file ${path} is neither that of a service account nor one of gcloud auth application-default login. Use one of them, or give bucket.credentials`;
  throw new ObjectsError("denied", sentence);
}

type ServiceKey = KeyFile & { readonly client_email: string; readonly private_key: string };

function assertionOf(key: ServiceKey, now: number, path: string): string {
  const iat = Math.floor(now / 1000);
  const header = { alg: "RS256", typ: "JWT", kid: key.private_key_id };
  const claims = { iss: key.client_email, scope, aud: tokenUrl(key).href, iat, exp: iat + lifeS };
  const text = [header, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
    .join(".");
  try {
    return `${text}.${createSign("RSA-SHA256").update(text).sign(key.private_key, "base64url")}`;
  } catch {
    throw new ObjectsError("denied", `the private key in ${path} cannot be used. Make a new key file`);
  }
}

async function askToken(
  platform: Platform,
  key: KeyFile,
  grant: Readonly<Record<string, string>>,
): Promise<GcsCredentials> {
  const url = tokenUrl(key);
  const body = new TextEncoder().encode(new URLSearchParams(grant).toString());
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  let reply: HttpReply;
  try {
    reply = await exchange(platform, { method: "POST", url, headers, body }, timeoutMs);
  } catch (error) {
    if (!(error instanceof ExchangeFailed)) throw error;
    throw new ObjectsError("unreachable", `no access token was given: ${error.message} (at ${url.host})`);
  }
  const { status } = reply;
  if (status === 429 || status >= 500)
    throw new ObjectsError("busy", `${url.host} is busy, so no access token was given (status ${status})`);
  const token = status === 200 ? readToken(textOf(reply)) : null;
  if (token === null) {
    const sentence = `${url.host} gives no access token for the key file (status ${status}). The key was deleted, or the clock of this machine is wrong`;
    throw new ObjectsError("denied", sentence);
  }
  return { accessToken: token.accessToken, expiration: new Date(platform.now() + token.lifeS * 1000) };
}

function readToken(text: string): { accessToken: string; lifeS: number } | null {
  try {
    const { access_token, expires_in } = JSON.parse(text) as { access_token?: unknown; expires_in?: unknown };
    if (typeof access_token !== "string") return null;
    return { accessToken: access_token, lifeS: typeof expires_in === "number" ? expires_in : lifeS };
  } catch {
    return null;
  }
}
