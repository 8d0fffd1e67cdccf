/**
 * Loads the file of a handler. Its default export is a function of the context, or the result of handler(job,
 * function), so that the same file works with every value of `run`.
 */
import { describeError } from "../../model/job/attempt-log.ts";
import { MillraceError } from "../../model/error.ts";

/** @param context a JobContext in the worker, a SandboxContext in a sandbox. */
export type LoadedHandler = (context: unknown) => unknown;

export async function loadHandler(file: URL): Promise<LoadedHandler> {
  let loaded: { readonly default?: unknown };
  try {
    loaded = (await import(file.href)) as typeof loaded;
  } catch (cause) {
    const { name, message } = describeError(cause);
    throw notLoaded(`The handler's file ${file.href} cannot be loaded: ${name}: ${message}`, cause);
  }
  // A CommonJS module has its default export in `default.default`.
  const exported = loaded.default as { readonly default?: unknown } | undefined;
  const handle = handleOf(exported) ?? handleOf(exported?.default);
  if (handle !== null) return handle;
  throw notLoaded(
    `The handler's file ${file.href} has no handler: its default export must be a function, or what handler(job, function) gives.`,
  );
}

function handleOf(exported: unknown): LoadedHandler | null {
  if (typeof exported === "function") return exported as LoadedHandler;
  if (typeof exported !== "object" || exported === null) return null;
  const { kind, handle, sandbox } = exported as Record<string, unknown>;
  return kind === "single" && typeof handle === "function" && sandbox === undefined
    ? (handle as LoadedHandler)
    : null;
}

export function notLoaded(message: string, cause?: unknown): MillraceError {
  return new MillraceError("handler-not-loaded", message, cause === undefined ? {} : { cause });
}
