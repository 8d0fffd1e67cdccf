/**
 * The order inside a lane: invariant 57. Only the first ready job of a lane may be claimed. Neither routes nor workers
 * matter: the order holds across names and processes.
 */
import type { Ledger, Violation } from "../ledger.ts";
import { isBetter, walkReady } from "../ready-order.ts";
import type { Claimed, Waiting } from "../ready-order.ts";

export function* checkLanes(ledger: Ledger): Generator<Violation> {
  if (ledger.lanes.size === 0) return;
  for (const { at, claimed, ready } of walkReady(ledger)) {
    for (const each of claimed) {
      const lane = ledger.lanes.get(each.id);
      if (lane === undefined) continue;
      const first = [...ready].find(
        ([id, waiting]) => ledger.lanes.get(id)?.key === lane.key && mustGoBefore(waiting, each, at),
      );
      if (first !== undefined)
        yield {
          invariant: 57,
          id: each.id,
          message: `${each.id} was claimed at ${at} although ${first[0]} of the lane ${JSON.stringify(lane.key)} comes before it`,
        };
    }
  }
}

/** What became ready in the very millisecond of the claim may have met it. A lane has its order in each partition. */
const mustGoBefore = (waiting: Waiting, claimed: Claimed, at: number): boolean =>
  isBetter(waiting, claimed) && waiting.since < at && waiting.partition === claimed.partition;
