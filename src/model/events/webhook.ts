/**
 * Webhooks as a store keeps them: all of them in one document, so that one read returns all, and deliveries can be made
 * under its version. The position of each in the feed is a document of its own, which changes with every batch.
 *
 * All of this lies in one partition, by the text in braces: a batch of deliveries and the new position are written in
 * one step.
 */
import { durationMs } from "../duration.ts";
import type { Duration } from "../duration.ts";
import { isEventName } from "./event.ts";
import type { EventName } from "./event.ts";
import { checkName } from "../name.ts";
import { checkBoolean, checkOptions, invalidOption } from "../option.ts";
import { readAttempts, readBackoff } from "../job/retry-policy.ts";
import type { BackoffOptions } from "../job/retry-policy.ts";

export const webhookQueue = "millrace:webhooks";
export const deliveryName = "deliver-webhook";
export const webhooksId = "{webhooks}";
/** The id of the documents of a single hook. */
export const hookId = (name: string): string => `${webhooksId}${name}`;
/** The tag by which deliveries of a hook are found. */
export const hookTag = (name: string): string => `webhook:${name}`;

export const webhooksMax = 100;
const nameCharsMax = 100;
const urlCharsMax = 2000;
const secretsMax = 5;
const timeoutMs = { usual: 10_000, max: 300_000 };

export interface WebhookOptions {
  url: string;
  /** Signs every delivery. Several while one is being replaced: each signs, and the receiver may know any of them. */
  secret: string | readonly string[];
  /** Which kinds of events; all by default. */
  kinds?: EventName | readonly EventName[];
  /** Only events of this queue. */
  queue?: string;
  /** Only events of jobs of this name. */
  name?: string;
  /** Only events of jobs with this tag. */
  tag?: string;
  /** One delivery at a time, in the order of the events; one that fails for good is passed over. False by default. */
  ordered?: boolean;
  /** How long one attempt may take in all; 10 s by default, 5 min at most. */
  timeout?: Duration;
  /** 12 attempts by default, from 5 s to an hour apart. */
  retry?: { attempts?: number; backoff?: BackoffOptions };
}

export interface Webhook {
  readonly name: string;
  readonly url: string;
  /** Encoded by the codec of this store. */
  readonly secrets: string;
  readonly kinds: readonly EventName[] | null;
  readonly queue: string | null;
  readonly jobName: string | null;
  readonly tag: string | null;
  readonly isOrdered: boolean;
  readonly timeoutMs: number;
  readonly retry: NonNullable<WebhookOptions["retry"]>;
  readonly isPaused: boolean;
}

const known = ["url", "secret", "kinds", "queue", "name", "tag", "ordered", "timeout", "retry"];
const usualRetry = {
  attempts: 12,
  backoff: { kind: "exponential", from: "5s", to: "1h" },
} as const satisfies WebhookOptions["retry"];

/** A hook as a user declares it, with its secrets in clear. */
export function readWebhook(
  name: string,
  given: unknown,
): { readonly hook: Omit<Webhook, "secrets">; readonly secrets: readonly string[] } {
  checkName(name, "webhook name");
  const what = `webhook ${JSON.stringify(name)}`;
  if (name.length > nameCharsMax)
    throw invalidOption(`${what}: a name has at most ${nameCharsMax} characters.`);
  const options = checkOptions(given, what, known) as unknown as WebhookOptions;
  const { queue, name: jobName, tag, ordered = false, timeout, retry } = options;
  const text = (value: unknown, key: string): string | null =>
    value === undefined ? null : checkName(value, `${what}: ${key}`);
  return {
    hook: {
      name,
      url: readUrl(options.url, what),
      kinds: readKinds(options.kinds, what),
      queue: text(queue, "queue"),
      jobName: text(jobName, "name"),
      tag: text(tag, "tag"),
      isOrdered: checkBoolean(ordered, `${what}: ordered`),
      timeoutMs: readTimeout(timeout, what),
      retry: readRetry(retry, what),
      isPaused: false,
    },
    secrets: readSecrets(options.secret, what),
  };
}

function readUrl(given: unknown, what: string): string {
  const url = typeof given === "string" && given.length <= urlCharsMax ? parseUrl(given) : null;
  if (url === null || !["http:", "https:"].includes(url.protocol))
    throw invalidOption(
      `${what}: url must be an http or https address of at most ${urlCharsMax} characters.`,
    );
  if (url.username !== "" || url.password !== "")
    throw invalidOption(`${what}: url must have no user and no password; deliveries are signed.`);
  return url.href;
}

function parseUrl(text: string): URL | null {
  try {
    return new URL(text);
  } catch {
    return null;
  }
}

function readSecrets(given: unknown, what: string): readonly string[] {
  const secrets: readonly unknown[] = Array.isArray(given) ? given : [given];
  const isRight = (secret: unknown): secret is string =>
    typeof secret === "string" && secret.length >= 16 && secret.length <= 500;
  if (secrets.length === 0 || secrets.length > secretsMax || !secrets.every(isRight))
    throw invalidOption(
      `${what}: secret must be a text of 16 to 500 characters, or a list of at most ${secretsMax}.`,
    );
  return secrets;
}

function readKinds(given: unknown, what: string): readonly EventName[] | null {
  if (given === undefined) return null;
  const kinds: readonly unknown[] = Array.isArray(given) ? given : [given];
  const wrong = kinds.find((kind) => !isEventName(kind));
  if (kinds.length === 0 || wrong !== undefined)
    throw invalidOption(
      `${what}: kinds must be kinds of events, not ${JSON.stringify(String(wrong ?? "").slice(0, 80))}.`,
    );
  return kinds as EventName[];
}

function readTimeout(given: unknown, what: string): number {
  const ms = durationMs(given ?? timeoutMs.usual, `${what}: timeout`);
  if (ms >= 1 && ms <= timeoutMs.max) return ms;
  throw invalidOption(`${what}: timeout must be from 1 ms to ${timeoutMs.max / 60_000} min.`);
}

function readRetry(given: unknown, what: string): NonNullable<WebhookOptions["retry"]> {
  if (given === undefined) return usualRetry;
  const { attempts, backoff } = checkOptions(given, `${what}: retry`, ["attempts", "backoff"]);
  if (attempts !== undefined) readAttempts(attempts, `${what}: retry.attempts`);
  if (backoff !== undefined) readBackoff(backoff, `${what}: retry.backoff`);
  return { ...usualRetry, ...(given as object) };
}

export function writeWebhooks(hooks: readonly Webhook[]): string {
  return JSON.stringify({ hooks: hooks.toSorted((one, other) => (one.name < other.name ? -1 : 1)) });
}

/** Throws if the text is no list of hooks. */
export function readWebhooks(text: string): readonly Webhook[] {
  const { hooks } = JSON.parse(text) as { hooks?: readonly Webhook[] };
  if (!Array.isArray(hooks)) throw new TypeError("The stored webhooks cannot be read.");
  return hooks as readonly Webhook[];
}
