/** Which parts of a job's own record cannot be read: they are texts that stores keep and hand back unread. */
import { isLogReadable } from "./attempt-log.ts";
import { isReadableMeta } from "./job-meta.ts";
import type { DecidedPolicy } from "./job-policy.ts";

const none: readonly string[] = [];

export function unreadableParts(
  { meta, attempts }: { readonly meta: string | null; readonly attempts: string | null },
  policy: DecidedPolicy,
): readonly string[] {
  // The usual job has neither headers nor a past; a member of a flow has a meta that was read for the one before it.
  if (policy.isReadable && (meta === null || isReadableMeta(meta)) && isLogReadable(attempts)) return none;
  return [
    ...(policy.isReadable ? [] : ["policy"]),
    ...(isReadableMeta(meta) ? [] : ["meta"]),
    ...(isLogReadable(attempts) ? [] : ["attempts"]),
  ];
}
