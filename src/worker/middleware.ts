/**
 * Application code around every handler: timing, tracing, transactions. It gets the context and the handler's outcome.
 */
import type { JobContext } from "./run/job-context.ts";

export type HandlerMiddleware = (context: JobContext, next: () => Promise<unknown>) => Promise<unknown>;

/** How an attempt ended, as its hook sees it: what the handler returned, or what it threw. */
export type HookOutcome = { readonly result: unknown } | { readonly error: unknown };

/** Functions before and after each attempt, for code that has nothing to say about its end. */
export interface Hooks {
  /** Awaited before all middleware. If it throws, the attempt has failed with that error. */
  before?: (context: JobContext) => unknown;
  /** Awaited after all middleware. What it returns is not looked at; if it throws, that is logged. */
  after?: (context: JobContext, outcome: HookOutcome) => unknown;
}

/** The hooks as the outermost middleware. @param failed called with what `after` throws. */
export function hookLayer(
  { before, after }: Hooks,
  failed: (context: JobContext, error: unknown) => void,
): HandlerMiddleware {
  const tell = async (context: JobContext, outcome: HookOutcome): Promise<void> => {
    try {
      await after?.(context, outcome);
    } catch (error) {
      failed(context, error);
    }
  };
  return async (context, next) => {
    let result: unknown;
    try {
      await before?.(context);
      result = await next();
    } catch (error) {
      await tell(context, { error });
      throw error;
    }
    await tell(context, { result });
    return result;
  };
}

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
