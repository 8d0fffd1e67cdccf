/**
 * Promote: makes scheduled jobs that are due ready (R5). It also sets the alarm, because the store's answer has the
 * time of the next clock of any job.
 */
import type { Needs } from "../services.ts";
import type { Duty } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";
import { passedOver } from "./passed-over.ts";

export function promoteDuty(needs: Needs<"store">, tuning: Tuning): Duty {
  return {
    name: "promote",
    wakes: "clock",
    sleepMaxMs: tuning.sleepMaxMs,
    async pass() {
      const answer = await needs.store.promoteDue({ max: tuning.batchMax });
      const { count, countIn, more, nextDueInMs, hiddenInMs } = answer;
      return {
        processed: count,
        ...(countIn === undefined ? {} : { processedIn: countIn }),
        ...passedOver(needs),
        outcomes: { promoted: count },
        hasMore: more,
        nextInMs: nextDueInMs,
        ...(hiddenInMs === undefined ? {} : { hiddenInMs }),
      };
    },
  };
}
