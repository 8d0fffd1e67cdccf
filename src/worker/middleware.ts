/**
 * Application code around every handler: timing, tracing, transactions. It gets the context and the handler's outcome.
 */
import type { JobContext } from "./run/job-context.ts";

export type HandlerMiddleware = (context: JobContext, next: () => Promise<unknown>) => Promise<unknown>;

/** The innermost call: the handler, or the joint call of its batch. */
export type HandlerCall = (context: JobContext) => unknown;

/** Makes a call through all layers, the outermost first. */
export type Layers = (context: JobContext, call: HandlerCall) => unknown;

/** Composed once per worker. Without middleware the call is made directly. */
export function composeMiddleware(middleware: readonly HandlerMiddleware[]): Layers {
  return middleware.reduceRight<Layers>(
    (inner, layer) => (context, call) => layer(context, async () => inner(context, call)),
    (context, call) => call(context),
  );
}
