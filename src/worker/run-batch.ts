/**
 * One call of a batch handler: every job goes through the middleware by itself, the handler runs once with all that arrive there, and each
 * job gets its own outcome back through its own layers.
 */
import { MillraceError } from "../model/error.ts";
import type { BatchHandler } from "./handler.ts";
import type { JobContext } from "./job-context.ts";
import type { HandlerMiddleware } from "./middleware.ts";
import { wrapHandler } from "./middleware.ts";

/** Never rejects: one settled outcome per context, in order. */
export function runBatch(
  handler: BatchHandler,
  middleware: readonly HandlerMiddleware[],
  contexts: readonly JobContext[],
): Promise<PromiseSettledResult<unknown>[]> {
  const arrived: { readonly context: JobContext; readonly settle: PromiseWithResolvers<unknown> }[] = [];
  let expected = contexts.length;
  const startWhenComplete = (): void => {
    if (arrived.length < expected || arrived.length === 0) return;
    expected = Number.POSITIVE_INFINITY;
    void callHandler(
      handler,
      arrived.map(({ context }) => context),
    ).then(
      (outcomes) => arrived.forEach(({ settle }, index) => settle.resolve(outcomes[index])),
      (error: unknown) => arrived.forEach(({ settle }) => settle.reject(error)),
    );
  };
  const enter = (context: JobContext): Promise<unknown> => {
    const settle = Promise.withResolvers<unknown>();
    arrived.push({ context, settle });
    startWhenComplete();
    return settle.promise;
  };
  return Promise.allSettled(
    contexts.map(async (context) => {
      let hasEntered = false;
      const run = wrapHandler(middleware, (inner) => ((hasEntered = true), enter(inner)));
      try {
        return await run(context);
      } finally {
        // A layer that answered by itself: the others must not wait for this job.
        if (!hasEntered) {
          expected -= 1;
          startWhenComplete();
        }
      }
    }),
  );
}

async function callHandler(
  handler: BatchHandler,
  contexts: readonly JobContext[],
): Promise<readonly unknown[]> {
  const outcomes: unknown = await handler.run(contexts);
  if (outcomes === undefined || outcomes === null) return [];
  if (Array.isArray(outcomes) && outcomes.length === contexts.length) return outcomes;
  const given = Array.isArray(outcomes) ? `${outcomes.length} outcomes` : typeof outcomes;
  throw new MillraceError(
    "invalid-result",
    `A batch handler must give back nothing, or one outcome for each of its ${contexts.length} jobs; it gave ${given}.`,
  );
}
