/**
 * A small strict server of Google Cloud Storage's JSON interface in memory, for tests: the requests that a client of
 * ours may make, and nothing else. It hands out access tokens for statements that its service account has signed, and
 * takes no other.
 */
import { createVerify, generateKeyPairSync } from "node:crypto";
import type { ServerResponse } from "node:http";
import { serveHttp, serverAt } from "./http-server.ts";
import type { HttpServer, WholeRequest } from "./http-server.ts";

export interface GcsServerOptions {
  readonly bucket?: string;
  /** How long it says that a token holds. */
  readonly tokenLifeS?: number;
  /** A server that knows no access: what STORAGE_EMULATOR_HOST names. */
  readonly isOpen?: boolean;
  readonly conditions?: "kept" | "ignored";
  /** Real ones say "No such object"; some emulators say nothing of what is missing. */
  readonly isTerse?: boolean;
  /** The rules of the bucket's lifecycle; none without it. */
  readonly lifecycle?: readonly Readonly<Record<string, unknown>>[];
}

export interface GcsServer extends HttpServer {
  readonly objects: Map<string, Buffer>;
  readonly bucket: string;
  /** What the file of its service account has. */
  readonly keyFile: Readonly<Record<string, string>>;
  /** How many tokens it has given. */
  readonly tokens: number;
  /** All tokens that it gave are of no worth any more. */
  revoke(): void;
}

class Refusal extends Error {
  readonly status: number;
  readonly reason: string;

  constructor(status: number, reason: string, message: string) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

const resultsMax = 1000;
const parametersOf = {
  upload: ["uploadType", "name", "ifGenerationMatch"],
  list: ["prefix", "startOffset", "maxResults", "pageToken", "fields"],
  get: ["alt"],
  bucket: ["fields"],
  remove: [],
} as const;
/** Made once: it takes a tenth of a second. */
let pair: { publicKey: string; privateKey: string } | null = null;

export async function openGcsServer(options: GcsServerOptions = {}): Promise<GcsServer> {
  const {
    bucket = "jobs",
    tokenLifeS = 3600,
    isOpen = false,
    conditions = "kept",
    isTerse = false,
  } = options;
  const objects = new Map<string, Buffer>();
  const valid = new Set<string>();
  let given = 0;
  pair ??= generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
  const { publicKey, privateKey } = pair;
  const account = "jobs@project.iam.gserviceaccount.com";

  const giveToken = ({ body }: WholeRequest, url: string): Readonly<Record<string, unknown>> => {
    const form = new URLSearchParams(body.toString());
    const wrong = (why: string): Refusal => new Refusal(400, "invalid_grant", why);
    if (form.get("grant_type") !== "urn:ietf:params:oauth:grant-type:jwt-bearer") throw wrong("grant_type");
    const [head = "", claims = "", signature = ""] = (form.get("assertion") ?? "").split(".");
    const check = createVerify("RSA-SHA256").update(`${head}.${claims}`);
    if (!check.verify(publicKey, signature, "base64url")) throw wrong("signature");
    const read = (text: string) =>
      JSON.parse(Buffer.from(text, "base64url").toString()) as Record<string, unknown>;
    if (read(head)["alg"] !== "RS256") throw wrong("alg");
    const { iss, scope, aud, iat, exp } = read(claims) as Record<string, unknown>;
    const nowS = serverAt / 1000;
    if (iss !== account || aud !== `${url}/token`) throw wrong("iss or aud");
    if (scope !== "https://www.googleapis.com/auth/devstorage.read_write") throw wrong("scope");
    if (Math.abs(Number(iat) - nowS) > 300 || Number(exp) - Number(iat) > 3600) throw wrong("iat or exp");
    const token = `ya29.token-${(given += 1)}`;
    valid.add(token);
    return { access_token: token, expires_in: tokenLifeS, token_type: "Bearer" };
  };

  const answer = (request: WholeRequest, response: ServerResponse): void => {
    const { method, headers, body } = request;
    const url = new URL(request.target, "http://server");
    if (url.pathname === "/token" && method === "POST")
      return json(response, 200, giveToken(request, server.url));
    const token = /^Bearer (.+)$/.exec(headers.authorization ?? "")?.[1];
    if (!isOpen && (token === undefined || !valid.has(token)))
      throw new Refusal(401, "authError", "Invalid Credentials");
    if (url.pathname === `/storage/v1/b/${bucket}` && method === "GET") {
      onlyParameters(url.searchParams, "bucket");
      return json(
        response,
        200,
        options.lifecycle === undefined ? {} : { lifecycle: { rule: options.lifecycle } },
      );
    }
    const [, upload, named = "", object] =
      /^(\/upload)?\/storage\/v1\/b\/([^/]+)\/o(?:\/([^/]+))?$/.exec(url.pathname) ?? [];
    if (named !== bucket) {
      const sentence = isTerse ? "Not Found" : "The specified bucket does not exist.";
      throw new Refusal(404, "notFound", sentence);
    }
    const query = url.searchParams;
    if (upload !== undefined && method === "POST" && object === undefined) {
      onlyParameters(query, "upload");
      const name = query.get("name") ?? "";
      if (query.get("uploadType") !== "media" || name === "")
        throw new Refusal(400, "invalid", "Bad Request");
      const condition = query.get("ifGenerationMatch");
      if (condition !== null && condition !== "0") throw new Refusal(400, "invalid", "Invalid argument.");
      if (condition === "0" && conditions === "kept" && objects.has(name))
        throw new Refusal(
          412,
          "conditionNotMet",
          "At least one of the pre-conditions you specified did not hold.",
        );
      objects.set(name, Buffer.from(body));
      return json(response, 200, { kind: "storage#object", name, bucket });
    }
    if (upload !== undefined) throw new Refusal(405, "methodNotAllowed", "Method Not Allowed");
    if (object === undefined && method === "GET") return json(response, 200, list(query));
    const name = decodeURIComponent(object ?? "");
    onlyParameters(query, method === "GET" ? "get" : "remove");
    const found = objects.get(name);
    if (found === undefined && name !== "")
      throw new Refusal(404, "notFound", isTerse ? "Not Found" : `No such object: ${bucket}/${name}`);
    if (method === "DELETE" && objects.delete(name)) {
      response.writeHead(204);
      response.end();
    } else if (method === "GET" && found !== undefined && query.get("alt") === "media") {
      response.writeHead(200, { "content-length": found.length });
      response.end(found);
    } else throw new Refusal(405, "methodNotAllowed", "Method Not Allowed");
  };

  const list = (query: URLSearchParams): Readonly<Record<string, unknown>> => {
    onlyParameters(query, "list");
    const max = Number(query.get("maxResults") ?? resultsMax);
    if (!Number.isInteger(max) || max < 1) throw new Refusal(400, "invalid", "Invalid maxResults.");
    // A page begins with the name of its token or offset itself.
    const token = query.get("pageToken");
    const from =
      token === null ? (query.get("startOffset") ?? "") : Buffer.from(token, "base64url").toString();
    const order = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));
    const prefix = query.get("prefix") ?? "";
    const names = [...objects.keys()]
      .filter((name) => name.startsWith(prefix) && order(name, from) >= 0)
      .sort(order);
    const page = names.slice(0, Math.min(max, resultsMax));
    const next = names[page.length];
    return {
      ...(page.length === 0 ? {} : { items: page.map((name) => ({ name })) }),
      ...(next === undefined ? {} : { nextPageToken: Buffer.from(next).toString("base64url") }),
    };
  };

  const server = await serveHttp(() => (request, response) => {
    try {
      answer(request, response);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const { status: code, reason, message } = error;
      const isMedia = request.target.includes("alt=media");
      if (isMedia && code === 404) {
        response.writeHead(404, { "content-type": "text/html" });
        response.end(message);
      } else
        json(response, code, { error: { code, message, errors: [{ message, domain: "global", reason }] } });
    }
  });
  return {
    ...server,
    objects,
    bucket,
    keyFile: {
      type: "service_account",
      client_email: account,
      private_key: privateKey,
      private_key_id: "1",
      token_uri: `${server.url}/token`,
    },
    get tokens() {
      return given;
    },
    revoke: () => valid.clear(),
  };
}

function onlyParameters(query: URLSearchParams, of: keyof typeof parametersOf): void {
  const known: readonly string[] = parametersOf[of];
  for (const name of query.keys())
    if (!known.includes(name)) throw new Refusal(400, "invalidParameter", `Unknown parameter ${name}.`);
}

function json(response: ServerResponse, status: number, value: unknown): void {
  const text = JSON.stringify(value);
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(text),
  });
  response.end(text);
}
