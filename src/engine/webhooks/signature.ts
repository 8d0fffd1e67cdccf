/**
 * The signature of a delivery, so that its receiver can tell who sent it, and when:
 *
 *   millrace-signature: t=1731760000,v1=<hex>,v1=<hex>
 *
 * `t` is the time of the attempt in seconds; each `v1` is the HMAC-SHA-256, with one of the hook's secrets, over the
 * time as it stands there, a dot, and the body as it was sent. A receiver that knows any of the secrets finds its own.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { durationMs } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { checkOptions, invalidOption } from "../../model/option.ts";

export const signatureHeader = "millrace-signature";
export const deliveryHeader = "millrace-delivery";

export function sign(body: string, secrets: readonly string[], atMs: number): string {
  const time = String(Math.floor(atMs / 1000));
  const signatures = secrets.map((secret) => `v1=${digest(secret, time, body).toString("hex")}`);
  return [`t=${time}`, ...signatures].join(",");
}

export interface VerifyOptions {
  /** The header `millrace-signature`. */
  signature: string | null | undefined;
  /** The body exactly as it came, before anything has parsed it. */
  body: string | Uint8Array;
  /** One or several that may have signed it. */
  secret: string | readonly string[];
  /** How far the time of the signature may be from now; `"5m"` by default. */
  tolerance?: Duration;
}

export function isSignedBy(options: VerifyOptions, nowMs: number): boolean {
  const given = checkOptions(options, "verifyWebhook", ["signature", "body", "secret", "tolerance"]);
  const { signature, body, secret, tolerance = "5m" } = given as unknown as VerifyOptions;
  const toleranceMs = durationMs(tolerance, "verifyWebhook: tolerance");
  if (typeof body !== "string" && !(body instanceof Uint8Array))
    throw invalidOption(
      "verifyWebhook: body must be the text or the bytes as they came, not what was parsed.",
    );
  const secrets = typeof secret === "string" ? [secret] : secret;
  const isText = (value: unknown): boolean => typeof value === "string" && value !== "";
  if (!Array.isArray(secrets) || secrets.length === 0 || !secrets.every(isText))
    throw invalidOption("verifyWebhook: secret must be a text, or a list of texts.");
  if (typeof signature !== "string" || signature.length > 10_000) return false;
  const parts = signature.split(",").map((part) => part.trim());
  const time = parts.find((part) => part.startsWith("t="))?.slice(2) ?? "";
  if (!/^\d{1,12}$/.test(time) || Math.abs(nowMs - Number(time) * 1000) > toleranceMs) return false;
  const signatures = parts.flatMap((part) =>
    /^v1=[0-9a-f]{64}$/.test(part) ? [Buffer.from(part.slice(3), "hex")] : [],
  );
  return secrets.some((one: string) => {
    const wanted = digest(one, time, body);
    return signatures.some((each) => timingSafeEqual(each, wanted));
  });
}

function digest(secret: string, time: string, body: string | Uint8Array): Buffer {
  return createHmac("sha256", secret).update(`${time}.`).update(body).digest();
}
