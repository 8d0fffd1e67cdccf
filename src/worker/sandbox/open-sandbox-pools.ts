/** Opens the sandbox pools of a worker's handlers before it takes its first job: all of them, or none. */
import type { Needs } from "../../engine/services.ts";
import { MillraceError } from "../../model/error.ts";
import { canStartChildren } from "../../platform/child-process.ts";
import type { HandlerSandbox, Handler } from "../handler.ts";

/** @returns a function that closes them. Throws the error of the first handler that cannot be loaded or started. */
export async function openSandboxPools(
  needs: Needs<"store" | "log">,
  handlers: readonly Handler[],
): Promise<() => Promise<void>> {
  if (!canStartChildren) refuseChildren(handlers);
  const opened = await Promise.allSettled(handlers.flatMap(sandboxOf).map(({ open }) => open(needs)));
  const closers = opened.filter((each) => each.status === "fulfilled").map(({ value }) => value);
  const close = async (): Promise<void> => void (await Promise.all(closers.map((closeOne) => closeOne())));
  const failed = opened.find((each) => each.status === "rejected");
  if (failed === undefined) return close;
  await close();
  throw failed.reason;
}

/** Otherwise the first job would fail in the middle of its start, and the process could end with it. */
function refuseChildren(handlers: readonly Handler[]): void {
  const refused = handlers.find((handler) => sandboxOf(handler).some(({ startsChildren }) => startsChildren));
  if (refused === undefined) return;
  const name = JSON.stringify(refused.definition.name);
  throw new MillraceError(
    "unsupported-runtime",
    `work: the handler of ${name} starts child processes, which Millrace does not do under Bun. Use run: "thread", or run this worker with Node.js.`,
  );
}

function sandboxOf(handler: Handler): readonly HandlerSandbox[] {
  return handler.kind === "single" && handler.sandbox !== undefined ? [handler.sandbox] : [];
}
