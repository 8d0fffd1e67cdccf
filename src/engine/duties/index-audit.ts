/**
 * Index audit: walks the store slowly and repairs what disagrees with the records (a timer, a tally, a key without its job). It finds
 * nothing in a healthy store; what it finds is a bug, so it says so. A page that cannot be read ends the walk, and the next one begins
 * at the head. One process of a store walks at a time, by term: on a large store a walk is real work.
 */
import type { Engine } from "../engine.ts";
import type { Duty } from "./duty.ts";
import { idlePass } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";
import { Quarantine } from "./quarantine.ts";
import { Term } from "./term.ts";

/** Short pauses inside a walk, so that the audit never competes with work. */
const betweenStepsMs = 1000;
const termMinMs = 60_000;

export function indexAuditDuty(engine: Engine, tuning: Tuning): Duty {
  const quarantine = new Quarantine(engine.platform);
  // Longer than the sleep and than the pause between two steps: whoever walks keeps it.
  const term = new Term(engine, "index-audit", Math.max(tuning.sleepMaxMs, termMinMs));
  let cursor: string | null = null;
  return {
    name: "index-audit",
    wakes: "sleep",
    sleepMaxMs: tuning.sleepMaxMs,
    quarantine,
    async pass(isAsked = false) {
      if (!isAsked && !(await term.take())) {
        cursor = null;
        return idlePass;
      }
      const page = cursor === null ? "the first page" : `the page after ${cursor}`;
      let answer: Awaited<ReturnType<Engine["store"]["auditIndexes"]>>;
      try {
        answer = await engine.store.auditIndexes({ cursor, max: tuning.batchMax });
      } catch (error) {
        quarantine.failed(page, error);
        if (quarantine.has(page)) cursor = null;
        throw error;
      }
      quarantine.succeeded(page);
      const { checked, repaired } = answer;
      cursor = answer.cursor;
      const count = Object.values(repaired).reduce((sum, each) => sum + each, 0);
      if (count > 0)
        engine.log.error("index audit repaired entries that should not have been wrong", { repaired });
      return {
        processed: checked,
        errors: 0,
        outcomes: { ...repaired },
        hasMore: cursor !== null,
        pauseMs: betweenStepsMs,
      };
    },
  };
}
