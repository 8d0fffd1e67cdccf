/** Code of the application around every handler: timing, tracing, transactions. It sees the context and whatever comes back. */
import type { JobContext } from "./job-context.ts";

export type HandlerMiddleware = (context: JobContext, next: () => Promise<unknown>) => Promise<unknown>;

/** Composed once per handler; without middleware the handler itself is called. */
export function wrapHandler(
  middleware: readonly HandlerMiddleware[],
  run: (context: JobContext) => unknown,
): (context: JobContext) => unknown {
  return middleware.reduceRight<(context: JobContext) => unknown>(
    (inner, layer) => (context) => layer(context, async () => inner(context)),
    run,
  );
}
