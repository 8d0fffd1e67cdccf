/**
 * Metrics: rolls up what processes have counted, minute by minute, and adds minutes that nobody writes to any more to
 * the totals. Only the leader does it, to save work; two processes do no harm, because each step is guarded by
 * the version of what it writes (metrics/metric-docs.ts). A process that has counted nothing looks only now and then,
 * for what others have left.
 */
import type { Needs } from "../services.ts";
import { addUpTotals } from "../metrics/add-up-totals.ts";
import { rollUpMinutes } from "../metrics/roll-up.ts";
import type { Duty } from "./duty.ts";
import { idlePass } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";
import { passedOver } from "./passed-over.ts";
import { SkippedPasses } from "./skipped-passes.ts";

export function metricsDuty(needs: Needs<"store" | "metrics" | "leadership">, tuning: Tuning): Duty {
  const rest = new SkippedPasses(Number.POSITIVE_INFINITY, tuning.sleepMaxMs, needs.store.partitions);
  return {
    name: "metrics",
    wakes: "sleep",
    sleepMaxMs: tuning.sleepMaxMs,
    async pass(isAsked = false) {
      if (!isAsked && !needs.leadership.isLeader) return idlePass;
      const isResting = rest.isOn();
      const hasWritten = needs.metrics?.takeHasWritten() ?? false;
      if (!isAsked && isResting && !hasWritten) return idlePass;
      const { now } = await needs.store.describe();
      const rolled = await rollUpMinutes(needs.store, now, tuning.batchMax);
      const over = passedOver(needs);
      // A minute that lies in a partition that fails would be left out of the totals for ever.
      const added =
        over.errors > 0
          ? { minutes: 0, hasMore: false }
          : await addUpTotals(needs.store, now, tuning.batchMax);
      const hasMore = rolled.hasMore || added.hasMore;
      // Parts of the last minutes are left for the next pass.
      if (!hasMore && !rolled.hasFresh) rest.begin();
      return {
        processed: rolled.parts + added.minutes,
        ...over,
        outcomes: { parts: rolled.parts, minutes: added.minutes },
        hasMore,
      };
    },
  };
}
