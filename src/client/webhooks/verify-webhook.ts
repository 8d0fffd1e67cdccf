/** For receivers of webhooks: checks that a delivery is signed with a secret that they know and is not too old. */
import { isSignedBy } from "../../engine/webhooks/signature.ts";
import type { VerifyOptions } from "../../engine/webhooks/signature.ts";
import { nodePlatform } from "../../platform/node-platform.ts";

/** `verifyWebhook({ signature: request.headers["millrace-signature"], body, secret })` */
export function verifyWebhook(options: VerifyOptions): boolean {
  return isSignedBy(options, nodePlatform.now());
}
