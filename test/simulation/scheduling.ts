/**
 * Schedules, drawn per seed: their rules and policies, and how often operators pause, edit and run them. All of them
 * end after a few ticks, so that every run can end. The steady ones are defined and left alone, and make up for every
 * tick that was missed: of those the checker knows which jobs there must be. Every draw is from a stream of its own, so
 * that a seed without schedules means what it meant before.
 */
import type { ScheduleOptions } from "../../src/model/schedule/schedule-settings.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { steadyPrefix } from "../history/firing-of.ts";

export interface PlannedSchedule {
  readonly name: string;
  readonly options: ScheduleOptions;
  /** Which of the jobs of the run it makes. */
  readonly job: number;
}

export interface Scheduling {
  readonly schedules: readonly PlannedSchedule[];
  /** How often clients define schedules, and operators change them, instead of enqueueing. */
  readonly acting: number;
}

const none: Scheduling = { schedules: [], acting: 0 };
/** More than any outage of a run can miss. */
const missedMax = 1000;

/** For two sevenths of the seeds, and none for every seed of seeds.ts, so that those mean what they meant. */
export function drawScheduling(random: SeededRandom): Scheduling {
  const acting = random.pick([0.2, 0, 0.4, 0, 0, 0, 0]);
  if (acting === 0) return none;
  const schedules = Array.from({ length: random.whole(1, 4) }, (_, number) =>
    drawSchedule(number, random.fork(`schedule ${number}`)),
  );
  return { schedules, acting };
}

function drawSchedule(number: number, random: SeededRandom): PlannedSchedule {
  const job = random.whole(0, 100);
  if (random.chance(0.5)) {
    const every = random.whole(200, 4000);
    const options = { every, limit: random.whole(2, 10), missed: { all: missedMax } };
    return { name: `${steadyPrefix}${number}`, options, job };
  }
  const overlap = random.pick(["allow", "skip", "queue-one", "cancel-previous"] as const);
  const rule = random.chance(0.3)
    ? { cron: `*/${random.whole(1, 4)} * * * * *` }
    : { every: random.whole(200, 4000) };
  const limit = random.whole(1, overlap === "allow" ? 8 : 3);
  const missed = random.pick(["skip", "once", { all: random.whole(1, 5) }] as const);
  return { name: `s${number}`, options: { ...rule, limit, missed, overlap }, job };
}

export function describeScheduling({ schedules }: Scheduling): string {
  return schedules.length === 0 ? "" : `, ${schedules.length} schedules`;
}
