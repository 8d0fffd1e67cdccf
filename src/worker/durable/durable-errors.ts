/**
 * What the calls of `step` throw into a handler. All are recorded or follow from what is, so a replay throws them
 * again.
 */

/** The code of a step, or a child, failed for good. The error that it threw is the cause, as it was recorded. */
export class StepFailed extends Error {
  override readonly name = "StepFailed";
  /** The key of the call. */
  readonly step: string;

  constructor(step: string, cause: unknown) {
    const why =
      cause instanceof Error ? `${cause.name}: ${cause.message}` : "it threw something that is no error";
    super(`The step ${JSON.stringify(step)} failed: ${why}`, { cause });
    this.step = step;
  }
}

/** No signal came in time. */
export class WaitTimedOut extends Error {
  override readonly name = "WaitTimedOut";
  readonly signal: string;

  constructor(signal: string) {
    super(`The signal ${JSON.stringify(signal)} did not come in time.`);
    this.signal = signal;
  }
}
