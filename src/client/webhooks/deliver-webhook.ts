/**
 * The handler of deliveries: sends one event to one webhook, signed, by a guarded POST. Any status but 2xx fails the
 * attempt. If the webhook was deleted, its deliveries are cancelled; if it is paused, they wait.
 */
import type { Needs } from "../../engine/services.ts";
import { deliverWebhook } from "../../engine/webhooks/delivery.ts";
import { deliveryHeader, sign, signatureHeader } from "../../engine/webhooks/signature.ts";
import type { Webhook } from "../../model/events/webhook.ts";
import { addressGuard } from "../../platform/address-guard.ts";
import { guardedPost } from "../../platform/guarded-post.ts";
import type { PostAnswer } from "../../platform/guarded-post.ts";
import { Cancel, RetryAfter, Snooze, Unrecoverable } from "../../worker/control.ts";
import { handler } from "../../worker/handler.ts";
import type { Handler } from "../../worker/handler.ts";

const pausedAgainMs = 30_000;
const bodyBytesMax = 256 * 1024;
const retryAfterMaxSeconds = 3600;
const textShownChars = 300;

export function deliveryHandler(
  needs: Needs<"platform" | "webhookDocs" | "coder" | "allowPrivate">,
): Handler {
  const { platform, allowPrivate } = needs;
  const mayConnect = addressGuard(allowPrivate);
  return handler(deliverWebhook, async ({ id, input: { hook: name, event }, signal }) => {
    const hook = (await needs.webhookDocs.find()).hooks.find((each) => each.name === name);
    if (hook === undefined) throw new Cancel("The webhook was deleted.");
    if (hook.isPaused) throw new Snooze(pausedAgainMs);
    const body = JSON.stringify({ id, webhook: name, event });
    if (Buffer.byteLength(body) > bodyBytesMax)
      throw new Unrecoverable(`The event is larger than ${bodyBytesMax} bytes.`);
    const answer = await guardedPost(platform, {
      url: hook.url,
      headers: {
        "content-type": "application/json",
        "user-agent": "millrace",
        [deliveryHeader]: id,
        [signatureHeader]: sign(body, secretsOf(needs, hook), platform.now()),
      },
      body,
      timeoutMs: hook.timeoutMs,
      mayConnect,
      signal,
    });
    mustBeGood(answer);
    return { status: answer.status };
  });
}

function secretsOf({ coder }: Needs<"coder">, { secrets }: Webhook): readonly string[] {
  return coder.decode(secrets) as readonly string[];
}

function mustBeGood({ status, retryAfter, text }: PostAnswer): void {
  if (status >= 200 && status < 300) return;
  const what = status >= 300 && status < 400 ? "redirects, which are not followed" : "refused the delivery";
  const message = `The receiver answered ${status} (${what}): ${text.slice(0, textShownChars)}`;
  const seconds = /^\d{1,9}$/.test(retryAfter ?? "") ? Number(retryAfter) : null;
  if (seconds !== null && (status === 429 || status === 503))
    throw new RetryAfter(Math.min(seconds, retryAfterMaxSeconds) * 1000, message);
  throw new Error(message);
}
