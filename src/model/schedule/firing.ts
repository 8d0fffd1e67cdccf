/**
 * A firing: the one job that a schedule makes for one tick. Its id follows from the schedule's name and the tick, so
 * however many processes fire the tick, at most one job comes of it; a backfill of a tick that has fired makes none.
 * The id has the form of a minted one because that carries its partition: a firing must lie where its schedule's
 * document lies, and a job with limits where all limits lie.
 *
 * Its due time is the tick plus a jitter that is drawn from the same two, so that all processes wait for the same.
 */
import { deriveId } from "../job/job-id.ts";
import { hashPair } from "../text-hash.ts";
import type { ScheduleRule } from "./schedule-rule.ts";

/** Names hold no control characters, so no schedule and tick can be written in two ways. */
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
