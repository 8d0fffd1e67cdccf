/**
 * The one call of a batch handler for several jobs. Each job arrives here through its own middleware; once all that
 * will come have come, the handler is called with all of them, and each job gets its own outcome back through its own
 * layers.
 *
 *   gathering ──the last one has joined or left──► called ──returned──► each job has its own outcome
 *                                                     └──threw──► all of them have that error
 */
import { MillraceError } from "../model/error.ts";
import type { BatchHandler } from "./handler.ts";
import type { JobContext } from "./job-context.ts";

interface Joined {
  readonly context: JobContext;
  readonly outcome: PromiseWithResolvers<unknown>;
}

export class JointCall {
  readonly #handler: BatchHandler;
  readonly #joined: Joined[] = [];
  #expected: number;
  #isCalled = false;

  constructor(handler: BatchHandler, expected: number) {
    this.#handler = handler;
    this.#expected = expected;
  }

  /**
   * @returns the outcome of this job. Middleware that calls it a second time is answered by a call for that job alone.
   */
  join(context: JobContext): Promise<unknown> {
    if (this.#isCalled) return callHandler(this.#handler, [context]).then(([outcome]) => outcome);
    const outcome = Promise.withResolvers<unknown>();
    this.#joined.push({ context, outcome });
    this.#callWhenComplete();
    return outcome.promise;
  }

  /** One job less will join. */
  leave(): void {
    this.#expected -= 1;
    this.#callWhenComplete();
  }

  #callWhenComplete(): void {
    const joined = this.#joined;
    if (this.#isCalled || joined.length === 0 || joined.length < this.#expected) return;
    this.#isCalled = true;
    void callHandler(
      this.#handler,
      joined.map(({ context }) => context),
    ).then(
      (outcomes) => joined.forEach(({ outcome }, index) => outcome.resolve(outcomes[index])),
      (error: unknown) => joined.forEach(({ outcome }) => outcome.reject(error)),
    );
  }
}

async function callHandler(
  handler: BatchHandler,
  contexts: readonly JobContext[],
): Promise<readonly unknown[]> {
  const outcomes: unknown = await handler.handle(contexts);
  if (outcomes === undefined || outcomes === null) return [];
  if (Array.isArray(outcomes) && outcomes.length === contexts.length) return outcomes;
  const given = Array.isArray(outcomes) ? `${outcomes.length} outcomes` : typeof outcomes;
  throw new MillraceError(
    "invalid-result",
    `A batch handler must give back nothing, or one outcome for each of its ${contexts.length} jobs; it gave ${given}.`,
  );
}
