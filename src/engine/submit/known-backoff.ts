/**
 * A backoff that a job names must be there when the job is retried. A process that also handles the job can check that
 * at the enqueue; a process that only enqueues cannot, so there the worker logs a name it does not know.
 */
import type { JobPolicy } from "../../model/job/job-policy.ts";
import { invalidOption } from "../../model/option.ts";
import { isKnownBackoff } from "../../model/job/retry-policy.ts";
import type { CustomBackoff } from "../../model/job/retry-policy.ts";

/** The name of the application's own backoff, where a policy has one. */
export function customBackoffOf({ backoff }: JobPolicy): string | null {
  return backoff?.kind === "custom" ? backoff.name : null;
}

export function checkKnownBackoff(
  backoffs: Readonly<Record<string, CustomBackoff>>,
  name: string | null,
  what: string,
): void {
  if (name === null || isKnownBackoff(backoffs, name)) return;
  const known = Object.keys(backoffs);
  throw invalidOption(
    `${what} names the backoff ${JSON.stringify(name)}, which is not among the backoffs given to open (${known.length === 0 ? "none" : known.join(", ")}).`,
  );
}
