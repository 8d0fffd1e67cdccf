/** Jobs with a key: invariant 57, and what invariant 33 asks of them. How a lane is read out of a job, the run says. */
import { laneOf } from "./lane-of.ts";
import type { Ledger, Violation } from "./ledger.ts";
import { isBetter, walkReady } from "./ready-order.ts";

/**
 * While a job of a FIFO key is claimed, as many better ones of the key as its cap may be on their way: those that run
 * and those that are ready together. Neither routes nor workers matter: the order holds across names and processes.
 */
export function* checkLanes(ledger: Ledger): Generator<Violation> {
  if (ledger.evidence.laneOf === undefined) return;
  for (const { claimed, ready } of walkReady(ledger)) {
    for (const each of claimed) {
      const lane = laneOf(ledger, each.id);
      if (lane === null || !lane.isFifo) continue;
      const better = [...ready].filter(
        ([id, waiting]) => isBetter(waiting, each) && laneOf(ledger, id)?.key === lane.key,
      );
      if (better.length >= lane.cap)
        yield {
          invariant: 57,
          id: each.id,
          message: `${each.id} was claimed although ${better[0]?.[0]} of the key ${lane.key} comes before it`,
        };
    }
  }
}
