/**
 * Metrics: rolls up the counts of all processes, minute by minute, and adds minutes that are no longer written to the
 * totals. Only the leader does it, to save work. Two processes do no harm, because each step is guarded by a version
 * (metrics/metric-docs.ts). If this process has counted nothing, most passes are skipped, and the others look for the
 * counts of other processes.
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
  const skipping = new SkippedPasses(Number.POSITIVE_INFINITY, tuning.sleepMaxMs, needs.store.partitions);
  return {
    name: "metrics",
    wakes: "sleep",
    sleepMaxMs: tuning.sleepMaxMs,
    async pass(isAsked = false) {
      if (!isAsked && !needs.leadership.isLeader) return idlePass;
      const isSkipping = skipping.isOn();
      const hasWritten = needs.metrics?.takeHasWritten() ?? false;
      if (!isAsked && isSkipping && !hasWritten) return idlePass;
      const { now } = await needs.store.describe();
      const rolled = await rollUpMinutes(needs.store, now, tuning.batchMax);
      const over = passedOver(needs);
      // With a failing partition, one of its minutes would be missing from the totals for ever.
      const added =
        over.errors > 0
          ? { minutes: 0, hasMore: false }
          : await addUpTotals(needs.store, now, tuning.batchMax);
      const hasMore = rolled.hasMore || added.hasMore;
      // Parts of the last minutes are left for the next pass.
      if (!hasMore && !rolled.hasFresh) skipping.begin();
      return {
        processed: rolled.parts + added.minutes,
        ...over,
        outcomes: { parts: rolled.parts, minutes: added.minutes },
        hasMore,
      };
    },
  };
}
