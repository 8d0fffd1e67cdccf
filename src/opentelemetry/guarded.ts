/**
 * Calls into the SDK, its exporters and propagators: code that is not ours, in the middle of the work of jobs. Whatever
 * they throw goes only to the diagnostics of OpenTelemetry.
 */
import { diag } from "./api.ts";

/** @returns null if the call threw. */
export function guarded<Value>(what: string, call: () => Value): Value | null {
  try {
    return call();
  } catch (error) {
    try {
      diag.error(`millrace: ${what} failed; the job is not touched`, error);
    } catch {
      // The diagnostics are the user's code too: nothing else can report this.
    }
    return null;
  }
}
