/**
 * Index audit: walks the store slowly and repairs what disagrees with the records (a timer, a tally, a key without its
 * job). In a healthy store it finds nothing; a finding is a bug of Millrace, so it is logged as an error. A page that
 * cannot be read ends the walk, and the next walk begins at the head. A term lets one process of a store walk at a
 * time, because on a large store a walk is real work.
 */
import type { Engine } from "../engine.ts";
import type { Duty } from "./duty.ts";
import { idlePass } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";
import { passedOver } from "./passed-over.ts";
import { Quarantine } from "./quarantine.ts";
import { Term } from "./term.ts";

/** A pause between two pages of a walk keeps the audit from competing with jobs. */
const betweenStepsMs = 1000;

export function indexAuditDuty(engine: Engine, tuning: Tuning): Duty {
  const quarantine = new Quarantine(engine.platform);
  const term = new Term(engine, "index-audit");
  let cursor: string | null = null;
  return {
    name: "index-audit",
    wakes: "sleep",
    sleepMaxMs: tuning.sleepMaxMs,
    quarantine,
    term,
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
      const { checked, checkedIn, repaired } = answer;
      cursor = answer.cursor;
      const count = Object.values(repaired).reduce((sum, each) => sum + each, 0);
      if (count > 0)
        engine.log.error("index audit repaired entries that should not have been wrong", { repaired });
      return {
        processed: checked,
        ...(checkedIn === undefined ? {} : { processedIn: checkedIn }),
        ...passedOver(engine),
        outcomes: { ...repaired },
        hasMore: cursor !== null,
        pauseMs: betweenStepsMs,
      };
    },
  };
}
