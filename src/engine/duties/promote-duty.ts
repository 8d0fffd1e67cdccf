/**
 * Promote: scheduled jobs that are due become ready (R5). It also sets the alarm: the store's answer says when the next
 * clock of any job rings, whichever clock that is.
 */
import type { Engine } from "../engine.ts";
import type { Duty } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";
import { passedOver } from "./passed-over.ts";

export function promoteDuty(engine: Engine, tuning: Tuning): Duty {
  return {
    name: "promote",
    wakes: "clock",
    sleepMaxMs: tuning.sleepMaxMs,
    async pass() {
      const answer = await engine.store.promoteDue({ max: tuning.batchMax });
      const { count, countIn, more, nextDueInMs, hiddenInMs } = answer;
      return {
        processed: count,
        ...(countIn === undefined ? {} : { processedIn: countIn }),
        ...passedOver(engine),
        outcomes: { promoted: count },
        hasMore: more,
        nextInMs: nextDueInMs,
        ...(hiddenInMs === undefined ? {} : { hiddenInMs }),
      };
    },
  };
}
