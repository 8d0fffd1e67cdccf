/** When the code of a step is tried again. A step has attempts of its own: those of its run are not used up. */
import { backoffDelayMs, defaultBackoff, isRetryable, readRetry } from "../job/retry-policy.ts";
import type { Backoff, BackoffSources, RetryIf } from "../job/retry-policy.ts";

export interface StepRetry {
  readonly attempts: number;
  readonly backoff: Backoff;
  readonly retryIf?: RetryIf;
}

export const defaultStepRetry: StepRetry = { attempts: 3, backoff: defaultBackoff };

export function readStepRetry(options: unknown, what: string): StepRetry {
  return options === undefined ? defaultStepRetry : { ...defaultStepRetry, ...readRetry(options, what) };
}

/** @returns null if the step has failed for good. @param attempt counts from 1. */
export function stepRetryDelayMs(
  { attempts, backoff, retryIf }: StepRetry,
  attempt: number,
  error: { readonly name: string; readonly code?: string },
  sources: BackoffSources,
): number | null {
  if (attempt >= attempts || !isRetryable(retryIf, error)) return null;
  return backoffDelayMs(backoff, attempt, error, sources);
}
