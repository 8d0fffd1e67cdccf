/**
 * Tokens with which somebody outside answers one wait of one run, such as by a link in an e-mail:
 *
 *   base64url(claims) "." base64url(HMAC-SHA-256 of the namespace and the claims)
 *   claims = JSON of [1, key id, run, round, key of the wait, source, expires at]
 *
 * A token is checked before anything about the run is read or said. Malformed, forged and unknown tokens are one
 * answer, found in the same time: an HMAC is computed and compared for each of them. That a token was used follows from
 * the journal: its answer is appended under `answerKeyOf`, which is accepted once.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { roundMark } from "../../model/durable/journal-entry.ts";

export interface TokenClaims {
  readonly run: string;
  readonly round: number;
  /** The key of the wait (`waitKey`), so that a token never answers the next wait for the same signal. */
  readonly wait: string;
  readonly source: string;
  /** By the store's clock. */
  readonly expiresAt: number;
}

export interface TokenKey {
  readonly id: string;
  readonly secret: Uint8Array;
  /** Tokens under it are refused from then on; null for the key that signs. */
  readonly until: number | null;
}

export type TokenCheck =
  | { readonly kind: "ok"; readonly claims: TokenClaims }
  | { readonly kind: "invalid" }
  | { readonly kind: "expired" };

const version = 1;
const macBytes = 32;
const tokenCharsMax = 4096;
/** For tokens whose key is not known: the comparison always fails, and takes as long. */
const nobodysSecret = new Uint8Array(macBytes);

export function signToken(claims: TokenClaims, key: TokenKey, namespace: string): string {
  const { run, round, wait, source, expiresAt } = claims;
  const text = JSON.stringify([version, key.id, run, round, wait, source, expiresAt]);
  return `${Buffer.from(text).toString("base64url")}.${macOf(text, key.secret, namespace).toString("base64url")}`;
}

export function checkToken(
  token: unknown,
  keys: readonly TokenKey[],
  { namespace, now }: { readonly namespace: string; readonly now: number },
): TokenCheck {
  const given = typeof token === "string" && token.length <= tokenCharsMax ? token : "";
  const [body = "", mac = ""] = given.split(".");
  const text = Buffer.from(body, "base64url").toString();
  const read = readClaims(text);
  const key = keys.find(({ id, until }) => id === read?.keyId && (until === null || now < until));
  const wanted = macOf(text, key?.secret ?? nobodysSecret, namespace);
  const found = Buffer.alloc(macBytes);
  const copied = Buffer.from(mac, "base64url").copy(found);
  const isEqual = timingSafeEqual(found, wanted);
  // A second spelling of the same bytes is another token.
  const isExact =
    copied === macBytes &&
    given === `${Buffer.from(text).toString("base64url")}.${found.toString("base64url")}`;
  if (read === null || key === undefined || !isEqual || !isExact) return { kind: "invalid" };
  return now < read.claims.expiresAt ? { kind: "ok", claims: read.claims } : { kind: "expired" };
}

/** The key of the journal under which the answer of this source to this wait is accepted once. */
export function answerKeyOf({ round, wait, source }: Pick<TokenClaims, "round" | "wait" | "source">): string {
  return `answer:${roundMark(round)}${wait}:${source}`;
}

const keysMax = 8;

/** A new key signs from now on; the others are accepted until the longest-lived token under them has expired. */
export function rotateKeys(
  keys: readonly TokenKey[],
  next: { readonly id: string; readonly secret: Uint8Array },
  { now, graceMs }: { readonly now: number; readonly graceMs: number },
): readonly TokenKey[] {
  const older = keys
    .map((key) => ({ ...key, until: Math.min(key.until ?? Infinity, now + graceMs) }))
    .filter(({ until }) => until > now);
  return [{ ...next, until: null }, ...older].slice(0, keysMax);
}

function macOf(text: string, secret: Uint8Array, namespace: string): Buffer {
  // The length marks the end of the namespace, which may have any characters.
  return createHmac("sha256", secret)
    .update(`millrace-token\n${namespace.length}\n${namespace}\n${text}`)
    .digest();
}

function readClaims(text: string): { readonly keyId: string; readonly claims: TokenClaims } | null {
  let parts: unknown;
  try {
    parts = JSON.parse(text);
  } catch {
    return null;
  }
  if (!Array.isArray(parts) || parts.length !== 7) return null;
  const [given, keyId, run, round, wait, source, expiresAt] = parts as unknown[];
  if (given !== version || !Number.isSafeInteger(round) || !Number.isSafeInteger(expiresAt)) return null;
  const isText = (value: unknown): value is string => typeof value === "string" && value !== "";
  if (!isText(keyId) || !isText(run) || !isText(wait) || !isText(source)) return null;
  return { keyId, claims: { run, round: round as number, wait, source, expiresAt: expiresAt as number } };
}
