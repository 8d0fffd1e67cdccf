/** Opens the sandbox pools of a worker's handlers before it takes its first job: all of them, or none. */
import type { Needs } from "../../engine/services.ts";
import type { HandlerSandbox, Handler } from "../handler.ts";

/** @returns a function that closes them. Throws the error of the first handler that cannot be loaded or started. */
export async function openSandboxPools(
  needs: Needs<"store" | "log">,
  handlers: readonly Handler[],
): Promise<() => Promise<void>> {
  const opened = await Promise.allSettled(handlers.flatMap(sandboxOf).map(({ open }) => open(needs)));
  const closers = opened.filter((each) => each.status === "fulfilled").map(({ value }) => value);
  const close = async (): Promise<void> => void (await Promise.all(closers.map((closeOne) => closeOne())));
  const failed = opened.find((each) => each.status === "rejected");
  if (failed === undefined) return close;
  await close();
  throw failed.reason;
}

function sandboxOf(handler: Handler): readonly HandlerSandbox[] {
  return handler.kind === "single" && handler.sandbox !== undefined ? [handler.sandbox] : [];
}
