/** Which parts of a job's own record are unreadable. Stores keep these texts and never read them. */
import { isLogReadable } from "./attempt-log.ts";
import { isReadableMeta } from "./job-meta.ts";
import type { DecidedPolicy } from "./job-policy.ts";

const none: readonly string[] = [];

export function unreadableParts(
  { meta, attempts }: { readonly meta: string | null; readonly attempts: string | null },
  policy: DecidedPolicy,
): readonly string[] {
  // The common case: no meta and no attempts yet, or the meta of a member of a flow, which was read for the job before.
  if (policy.isReadable && (meta === null || isReadableMeta(meta)) && isLogReadable(attempts)) return none;
  return [
    ...(policy.isReadable ? [] : ["policy"]),
    ...(isReadableMeta(meta) ? [] : ["meta"]),
    ...(isLogReadable(attempts) ? [] : ["attempts"]),
  ];
}
