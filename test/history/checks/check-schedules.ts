/** Of schedules: invariant 28. */
import { readSchedule, settingsOf } from "../../../src/model/schedule/schedule-state.ts";
import { firingOf, steadyPrefix } from "../firing-of.ts";
import { pushTo } from "../ledger.ts";
import type { Ledger, Violation } from "../ledger.ts";

export function* checkSchedules(ledger: Ledger): Generator<Violation> {
  const made = new Map<string, Map<number, string[]>>();
  for (const [id, specs] of ledger.specs) {
    const firing = specs[0] === undefined ? null : firingOf(specs[0]);
    if (firing === null || firing.tick === null || !ledger.timelines.has(id)) continue;
    const ticks = made.get(firing.name) ?? new Map<number, string[]>();
    made.set(firing.name, ticks);
    pushTo(ticks, firing.tick, id);
  }
  for (const [name, ticks] of made)
    for (const [tick, ids] of ticks)
      if (ids.length > 1)
        yield {
          invariant: 28,
          id: ids[0] as string,
          message: `the tick ${tick} of ${name} made ${ids.join(", ")}`,
        };
  yield* steadySchedulesMissNothing(ledger, made);
}

/**
 * Everybody was there again in the end, and had time: as many ticks have fired as the limit allows, one after the
 * other.
 */
function* steadySchedulesMissNothing(
  { evidence }: Ledger,
  made: ReadonlyMap<string, ReadonlyMap<number, unknown>>,
): Generator<Violation> {
  for (const { id, body } of evidence.snapshot.schedules) {
    const name = id.slice(id.lastIndexOf("}") + 1);
    const read = readSchedule(body);
    if (!name.startsWith(steadyPrefix) || read.kind !== "read") continue;
    const { rule } = settingsOf(read.state);
    const ticks = [...(made.get(name)?.keys() ?? [])].toSorted((one, other) => one - other);
    if (ticks.length !== rule.limit)
      yield { invariant: 28, message: `${name} has fired ${ticks.length} of ${rule.limit} ticks` };
    for (const [at, tick] of ticks.entries()) {
      const before = ticks[at - 1];
      if (before !== undefined && rule.every !== null && tick - before !== rule.every)
        yield { invariant: 28, message: `${name} has made no job between its ticks ${before} and ${tick}` };
    }
  }
}
