/**
 * The queues of a budget: while it is spent, their gates are closed. A queue that somebody has paused for longer stays
 * paused, and a queue is opened only if it is closed until the time that this budget has named.
 */
import { queueGateKey } from "../../model/limits/gate.ts";
import { changeGate } from "../limits/change-gate.ts";
import type { Needs } from "../services.ts";

/** @param until null: the budget is not spent. */
export async function holdQueues(
  { store, limits }: Needs<"store" | "limits">,
  queues: readonly string[],
  budget: string,
  until: number | null,
): Promise<void> {
  for (const queue of queues) {
    const key = queueGateKey(queue);
    const { change } = await changeGate(store, key, ({ gate, body, now }) => {
      const closedUntil = gate?.closedUntil ?? 0;
      const { spent, ...rest } = body;
      if (until === null) {
        if (spent?.budget !== budget) return null;
        return { body: rest, ...(closedUntil === spent.until && closedUntil > now ? { closed: null } : {}) };
      }
      if (closedUntil >= until) return null;
      return { body: { ...rest, spent: { budget, until } }, closed: { at: until } };
    });
    if (change?.closed !== undefined && change.closed !== null) limits.gateClosed.emit(key);
  }
}
