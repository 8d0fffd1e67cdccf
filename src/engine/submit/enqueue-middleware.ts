/** Code of the application around every enqueue: it may look at, change or refuse what is enqueued. */
import type { Submission } from "./job-definition.ts";

export type EnqueueMiddleware = (
  submission: Submission,
  next: (submission: Submission) => Promise<void>,
) => Promise<void>;

/**
 * Runs a submission through all middleware and gives back what came out; null when one of them did not call next, which
 * refuses the enqueue.
 */
export async function passThrough(
  middleware: readonly EnqueueMiddleware[],
  submission: Submission,
): Promise<Submission | null> {
  let passed: Submission | null = null;
  const run = async (index: number, current: Submission): Promise<void> => {
    const layer = middleware[index];
    if (layer === undefined) {
      passed = current;
      return;
    }
    await layer(current, (changed) => run(index + 1, changed));
  };
  await run(0, submission);
  return passed;
}
