/** Planted violations of what schedules promise (invariant 28), and histories that keep it. */
import { writeMeta } from "../../../src/model/job/job-meta.ts";
import { newSchedule, writeSchedule } from "../../../src/model/schedule/schedule-state.ts";
import { readScheduleSettings } from "../../../src/model/schedule/schedule-settings.ts";
import { steadyPrefix } from "../firing-of.ts";
import type { Planted, Write } from "./planted.ts";
import type { Scribe } from "../scribe.ts";

const name = `${steadyPrefix}1`;

function fire(scribe: Scribe, id: string, tick: number): void {
  scribe.live(id, { meta: writeMeta({ schedule: { name, tick } }) });
}

/** A schedule of three ticks, a second apart, that makes up for all that were missed. */
function define(scribe: Scribe): void {
  const settings = readScheduleSettings({ every: 1000, limit: 3, missed: { all: 9 } }, "{}", "planted");
  const body = writeSchedule(newSchedule(settings, 0));
  scribe.schedules.push({ kind: "schedule", id: name, version: 1, body, dueAt: null, expiresAt: null });
}

export const trueSchedules: Readonly<Record<string, Write>> = {
  "a schedule whose ticks made a job each, some of them late": (s) => {
    define(s);
    for (const tick of [1000, 2000, 3000]) fire(s, `t${tick}`, tick);
  },
};

export const plantedSchedules: readonly Planted[] = [
  [
    28,
    "two jobs stand for one tick",
    (s) => {
      fire(s, "a", 1000);
      fire(s, "b", 1000);
    },
  ],
  [
    28,
    "a schedule that makes up for missed ticks leaves one out",
    (s) => {
      define(s);
      for (const tick of [1000, 2000, 4000]) fire(s, `t${tick}`, tick);
    },
  ],
  [
    28,
    "a schedule stops before its limit",
    (s) => {
      define(s);
      for (const tick of [1000, 2000]) fire(s, `t${tick}`, tick);
    },
  ],
];
