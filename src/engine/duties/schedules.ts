/**
 * Schedules: fires what is due by the store's clock, and takes the steps of backfills (engine/schedules/). Every step is
 * guarded by its document's version, so a second process does no harm; the alarm keeps the others from trying at once.
 * What is not due is never looked at. One document that fails is quarantined alone.
 */
import type { Doc } from "../../store/records.ts";
import type { Engine } from "../engine.ts";
import { answersWithin } from "../race.ts";
import { stepOneBackfill } from "../schedules/backfills.ts";
import { fireSchedule } from "../schedules/fire.ts";
import type { Look } from "../schedules/fire.ts";
import { backfillKind, scheduleKind } from "../schedules/schedule-docs.ts";
import type { Duty, DutyPass } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";
import { passedOver } from "./passed-over.ts";
import { itemMaxMs, Quarantine } from "./quarantine.ts";

type Step = (engine: Engine, doc: Doc, now: number) => Promise<Look>;

const steps: ReadonlyMap<string, Step> = new Map([
  [scheduleKind, fireSchedule],
  [backfillKind, stepOneBackfill],
]);

export function schedulesDuty(engine: Engine, tuning: Tuning): Duty {
  const quarantine = new Quarantine(engine.platform);
  let cursor: string | null = null;
  return {
    name: "schedules",
    wakes: "alarm",
    sleepMaxMs: tuning.sleepMaxMs,
    quarantine,
    async pass(): Promise<DutyPass> {
      const page = await engine.store.readDueDocs({ max: tuning.batchMax, cursor });
      cursor = page.cursor;
      const due = page.docs.flatMap((doc) => {
        const step = steps.get(doc.kind);
        const item = `${doc.kind} ${doc.id}`;
        return step === undefined || quarantine.has(item) ? [] : [{ doc, step, item }];
      });
      const ended = await Promise.allSettled(
        due.map(({ doc, step }) => answersWithin(engine.platform, step(engine, doc, page.now), itemMaxMs)),
      );
      const outcomes: Record<string, number> = {};
      let nextAt = page.nextInMs === null || page.nextInMs === 0 ? Infinity : page.now + page.nextInMs;
      let processed = 0;
      let errors = 0;
      for (const [at, end] of ended.entries()) {
        const { item } = due[at] as (typeof due)[number];
        if (end.status === "rejected") {
          errors += 1;
          quarantine.failed(item, end.reason);
          engine.log.error("duty schedules: one could not be fired", { item, error: end.reason as unknown });
          continue;
        }
        const { outcome, dueAt } = end.value;
        quarantine.succeeded(item);
        outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
        if (outcome !== "raced") processed += 1;
        nextAt = Math.min(nextAt, dueAt ?? Infinity);
      }
      return {
        processed,
        ...passedOver(engine, errors),
        outcomes,
        hasMore: page.cursor !== null,
        nextInMs: nextAt === Infinity ? null : Math.max(0, nextAt - page.now),
      };
    },
  };
}
