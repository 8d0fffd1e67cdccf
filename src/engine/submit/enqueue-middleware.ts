/** Code of the application around every enqueue: it may look at, change or refuse what is enqueued. */
import { MillraceError } from "../../model/error.ts";
import { invalidOption } from "../../model/option.ts";
import type { Submission } from "./job-definition.ts";

export type EnqueueMiddleware = (
  submission: Submission,
  next: (submission: Submission) => Promise<void>,
) => Promise<void>;

/**
 * Runs a submission through all middleware and returns what came out. One of them that does not call next refuses the
 * enqueue.
 */
export async function passThrough(
  middleware: readonly EnqueueMiddleware[],
  submission: Submission,
): Promise<Submission> {
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
  const name = JSON.stringify(submission.job.name);
  if (passed !== null) return checkKeepsKv(submission, passed, name);
  throw new MillraceError("aborted", `An enqueue middleware did not pass ${name} on.`);
}

/** The KV writes of an enqueue are read from what its caller gave. */
function checkKeepsKv(given: Submission, passed: Submission, name: string): Submission {
  if (passed.options?.kv === given.options?.kv) return passed;
  throw invalidOption(`An enqueue middleware may not change the kv of ${name}.`);
}
