/**
 * Index audit: walks the store slowly and repairs entries that disagree with the records (a timer, a state count, a key
 * without its job). In a healthy store it finds nothing. A finding is a bug of Millrace, so it is logged as an error.
 * If a page cannot be read, the walk ends, and the next one starts at the beginning. Only the leader walks, because a
 * walk of a large store is real work. After a walk, unreadable records are named in the log, once each, and members of
 * flows among them are ended.
 */
import { BoundedMap } from "../../model/bounded-map.ts";
import { allUnreadable } from "../docs/all-unreadable.ts";
import type { Store } from "../../store/store.ts";
import type { Needs } from "../services.ts";
import { endLostMembers } from "../flows/lost-members.ts";
import type { Duty } from "./duty.ts";
import { idlePass } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";
import { passedOver } from "./passed-over.ts";
import { Quarantine } from "./quarantine.ts";

/**
 * A pause between two pages keeps the audit from competing with jobs. After a page with little to check it is longer: a
 * small store has mostly such pages, five per partition, and an idle process should make few calls.
 */
const pauseMs = { fullPage: 2000, smallPage: 20_000 };

/** How many unreadable records one walk names in the log, and how many names are remembered. */
const namedPerWalkMax = 20;
const namedMax = 10_000;

export function indexAuditDuty(
  needs: Needs<"store" | "platform" | "log" | "changes" | "reads" | "leadership" | "policies" | "strideMs">,
  tuning: Tuning,
): Duty {
  const quarantine = new Quarantine(needs.platform);
  const named = new BoundedMap<string, number>(namedMax);
  let cursor: string | null = null;
  return {
    name: "index-audit",
    wakes: "sleep",
    sleepMaxMs: tuning.sleepMaxMs,
    quarantine,
    async pass(isAsked = false) {
      if (!isAsked && !needs.leadership.isLeader) {
        cursor = null;
        return idlePass;
      }
      const page = cursor === null ? "the first page" : `the page after ${cursor}`;
      let answer: Awaited<ReturnType<Store["auditIndexes"]>>;
      try {
        answer = await needs.store.auditIndexes({ cursor, max: tuning.batchMax });
      } catch (error) {
        quarantine.failed(page, error);
        if (quarantine.has(page)) cursor = null;
        throw error;
      }
      quarantine.succeeded(page);
      const { checked, checkedIn, repaired } = answer;
      cursor = answer.cursor;
      if (cursor === null) await nameUnreadable(needs, named);
      const ended = cursor === null ? await endLostMembers(needs) : 0;
      if (ended > 0) needs.log.error("members of flows whose records are unreadable have failed", { ended });
      const count = Object.values(repaired).reduce((sum, each) => sum + each, 0);
      if (count > 0)
        needs.log.error("index audit repaired wrong index entries; please report this as a bug", {
          repaired,
        });
      return {
        processed: checked,
        ...(checkedIn === undefined ? {} : { processedIn: checkedIn }),
        ...passedOver(needs),
        outcomes: { ...repaired, ...(ended === 0 ? {} : { "members-ended": ended }) },
        hasMore: cursor !== null,
        pauseMs: checked * 2 < tuning.batchMax ? pauseMs.smallPage : pauseMs.fullPage,
      };
    },
  };
}

/** @param named by ref, when the record that was named in the log was found unreadable: a ref may be used again. */
async function nameUnreadable(
  needs: Needs<"store" | "log">,
  named: BoundedMap<string, number>,
): Promise<void> {
  let count = 0;
  for await (const { ref, id, why, at } of allUnreadable(needs.store)) {
    if (named.get(ref) === at) continue;
    named.set(ref, at);
    count += 1;
    if (count <= namedPerWalkMax) needs.log.error("a record is unreadable", { id, ref, why });
  }
  if (count > namedPerWalkMax)
    needs.log.error("more records are unreadable", { count: count - namedPerWalkMax });
}
