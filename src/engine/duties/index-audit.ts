/**
 * Index audit: walks the store slowly and repairs what disagrees with the records (a timer, a tally, a key without its job). It finds
 * nothing in a healthy store; what it finds is a bug, so it says so.
 */
import type { Engine } from "../engine.ts";
import type { Duty } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";

/** Short pauses inside a walk, so that the audit never competes with work. */
const betweenStepsMs = 1000;

export function indexAuditDuty(engine: Engine, tuning: Tuning): Duty {
  let cursor: string | null = null;
  return {
    name: "index-audit",
    wakes: "sleep",
    sleepMaxMs: tuning.sleepMaxMs,
    async run() {
      const {
        checked,
        repaired,
        cursor: next,
      } = await engine.store.auditIndexes({ cursor, max: tuning.batchMax });
      cursor = next;
      const count = Object.values(repaired).reduce((sum, each) => sum + each, 0);
      if (count > 0)
        engine.log.error("index audit repaired entries that should not have been wrong", { repaired });
      return {
        processed: checked,
        errors: 0,
        outcomes: { ...repaired },
        hasMore: next !== null,
        pauseMs: betweenStepsMs,
      };
    },
  };
}
