/**
 * Warns of queues that are probably misspelt: the worker is set up to serve them, but no handler of it declares them
 * and no job was ever in them. The worker serves them all the same, because jobs may be sent there by name later.
 */
import type { Needs } from "../../engine/services.ts";
import { queueOf } from "../../engine/submit/router.ts";
import type { Handler } from "../handler.ts";

/** @param queues the queues of the worker's options; null if they follow from the handlers. */
export async function warnOfUnknownQueues(
  needs: Needs<"store" | "router" | "log">,
  handlers: readonly Handler[],
  queues: ReadonlyMap<string, unknown> | null,
): Promise<void> {
  try {
    const declared = new Set(handlers.map(({ definition }) => queueOf(needs.router, definition)));
    const undeclared = [...(queues?.keys() ?? [])].filter((queue) => !declared.has(queue));
    if (undeclared.length === 0) return;
    const used = new Set((await needs.store.readRoutes()).map(({ queue }) => queue));
    for (const queue of undeclared.filter((each) => !used.has(each)))
      needs.log.warn(
        "a worker serves a queue that no handler declares and no job was ever in; is it spelt right?",
        { queue, declared: [...declared] },
      );
  } catch (error) {
    needs.log.debug("the queues of the store could not be read", { error });
  }
}
