/** Opens the crews of a worker's handlers before it takes its first job: all of them, or none. */
import type { Engine } from "../../engine/engine.ts";
import type { Handler } from "../handler.ts";

/** @returns what closes them. Throws the error of the first handler that cannot be loaded or started. */
export async function openCrews(engine: Engine, handlers: readonly Handler[]): Promise<() => Promise<void>> {
  const opened = await Promise.allSettled(
    handlers.map((handler) => (handler.kind === "single" ? handler.elsewhere?.open(engine) : undefined)),
  );
  const close = async (): Promise<void> => {
    await Promise.all(opened.map((each) => (each.status === "fulfilled" ? each.value?.() : undefined)));
  };
  const failed = opened.find((each) => each.status === "rejected");
  if (failed === undefined) return close;
  await close();
  throw failed.reason;
}
