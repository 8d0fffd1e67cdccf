/**
 * A firing: the one job that a schedule makes for one tick. Its id follows from the schedule's name and the tick. So at
 * most one job is made, however many processes fire the tick, and a backfill of a tick that has fired makes none. The
 * id has the form of a minted one, which carries the partition: a firing must lie with its schedule's document, and a
 * job with limits with all limits.
 *
 * Its due time is the tick plus a jitter that follows from the same two, so it is equal in all processes.
 */
import { deriveId } from "../job/job-id.ts";
import { hashPair } from "../text-hash.ts";
import type { ScheduleRule } from "./schedule-rule.ts";

/** Names have no control characters, so the text is unambiguous. */
const partEnd = "\x1f";

/** @param partition where the schedule's document lies: a firing and its document are written in one step. */
export function firingId(name: string, tick: number, partition = 0): string {
  return deriveId({ of: `schedule${partEnd}${name}`, at: tick, partition });
}

/** When the tick's job is due: the tick itself, or up to the rule's jitter later. */
export function firingDue(rule: ScheduleRule, name: string, tick: number): number {
  if (rule.jitter === null) return tick;
  const { low } = hashPair(`${name}${partEnd}${tick}`);
  return tick + Math.floor((low / 2 ** 32) * (rule.jitter + 1));
}
