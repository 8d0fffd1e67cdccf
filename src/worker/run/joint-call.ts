/**
 * The one call of a batch handler for several jobs. Each job arrives here through its own middleware. When all expected
 * jobs have arrived, the handler is called with all of them, and each job gets its own outcome back through its own
 * middleware.
 *
 *   gathering ──the last one has joined or left──► called ──returned──► each job has its own outcome
 *                                                     └──threw──► all of them have that error
 */
import type { RunningAttempt, Telemetry } from "../../engine/attempts/telemetry.ts";
import { MillraceError } from "../../model/error.ts";
import type { BatchHandler } from "../handler.ts";
import type { JobContext } from "./job-context.ts";

interface Joined {
  readonly context: JobContext;
  readonly attempt: RunningAttempt;
  readonly outcome: PromiseWithResolvers<unknown>;
}

export class JointCall {
  readonly #handler: BatchHandler;
  readonly #telemetry: Telemetry | null;
  readonly #joined: Joined[] = [];
  #expected: number;
  #isCalled = false;

  constructor(handler: BatchHandler, expected: number, telemetry: Telemetry | null) {
    this.#handler = handler;
    this.#telemetry = telemetry;
    this.#expected = expected;
  }

  /**
   * @returns the outcome of this job. If middleware calls it a second time, the handler is called for this job alone.
   */
  join(context: JobContext, attempt: RunningAttempt): Promise<unknown> {
    const outcome = Promise.withResolvers<unknown>();
    if (this.#isCalled) return this.#call([{ context, attempt, outcome }]).then(([own]) => own);
    this.#joined.push({ context, attempt, outcome });
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
    void this.#call(joined).then(
      (outcomes) => joined.forEach(({ outcome }, index) => outcome.resolve(outcomes[index])),
      (error: unknown) => joined.forEach(({ outcome }) => outcome.reject(error)),
    );
  }

  async #call(joined: readonly Joined[]): Promise<readonly unknown[]> {
    const contexts = joined.map(({ context }) => context);
    if (this.#telemetry === null) return callHandler(this.#handler, contexts);
    const attempts = joined.map(({ attempt }) => attempt);
    return this.#telemetry.run(attempts, true, () => callHandler(this.#handler, contexts));
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
