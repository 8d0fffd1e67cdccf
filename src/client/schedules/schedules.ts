/**
 * Schedules at run time, for all processes of the store. The code's definition is the default; an edit holds until the
 * code's own definition changes.
 */
import { allDocs } from "../../engine/docs/all-docs.ts";
import { asOneCall } from "../../engine/calls/one-call.ts";
import type { Needs } from "../../engine/services.ts";
import { beginBackfill, readProgress, stopBackfill } from "../../engine/schedules/backfills.ts";
import type { BackfillProgress } from "../../engine/schedules/backfills.ts";
import { jobsOfFiring, withInput } from "../../engine/schedules/firing-template.ts";
import {
  backfillKind,
  changeSchedule,
  contended,
  findDocs,
  findSchedule,
  foundSchedule,
  mustFind,
  partitionOfDoc,
  scheduleKind,
  schedulePut,
  serverTime,
} from "../../engine/schedules/schedule-docs.ts";
import type { ReadableSchedule } from "../../engine/schedules/schedule-docs.ts";
import { refusalError } from "../../engine/submit/refusal-error.ts";
import { checkName } from "../../model/name.ts";
import { checkWhole } from "../../model/option.ts";
import { readScheduleEdit } from "../../model/schedule/schedule-settings.ts";
import type { ScheduleOptions } from "../../model/schedule/schedule-settings.ts";
import {
  afterEdit,
  afterPause,
  afterReset,
  afterResume,
  afterRunNow,
  settingsOf,
} from "../../model/schedule/schedule-state.ts";
import type { ScheduleState } from "../../model/schedule/schedule-state.ts";
import { nextTick } from "../../model/schedule/rule-ticks.ts";
import { viewSchedule } from "./schedule-view.ts";
import type { ScheduleView } from "./schedule-view.ts";

type SchedulesNeeds = Needs<
  "store" | "platform" | "giveUpMs" | "coder" | "ids" | "schedules" | "reads" | "submitter" | "policies"
>;

export type { BackfillProgress } from "../../engine/schedules/backfills.ts";

/** An option that is left out stays; null removes it. */
export interface ScheduleEdits extends ScheduleOptions {
  /** The input of its jobs from now on, in place of the one that it was defined with. */
  input?: unknown;
}

export interface BackfillOptions {
  /** The first instant of the range. */
  from: Date | number;
  /** The instant at which the range ends; a tick at that instant is not part of it. */
  to: Date | number;
  /** How many jobs of the backfill may be alive at once; 10 by default. */
  atOnce?: number;
}

const nextMax = 1000;
const triesMax = 100;

export class Schedules {
  readonly #needs: SchedulesNeeds;

  constructor(needs: SchedulesNeeds) {
    this.#needs = needs;
  }

  /** All schedules, by name, including those that this process cannot read. */
  async list(): Promise<readonly ScheduleView[]> {
    const views: ScheduleView[] = [];
    for await (const doc of allDocs(this.#needs.store, { kind: scheduleKind }))
      views.push(viewSchedule(this.#needs, foundSchedule(doc)));
    return views.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  }

  /** Null if there is no such schedule. */
  async get(name: string): Promise<ScheduleView | null> {
    checkName(name, "schedules.get: name");
    const found = await findSchedule(this.#needs, name);
    return found === null ? null : viewSchedule(this.#needs, found);
  }

  /** No tick fires until `resume`, and ticks that pass meanwhile are not made up for. */
  pause(name: string): Promise<ScheduleView> {
    return this.#change("pause", name, ({ state }) => afterPause(state));
  }

  resume(name: string): Promise<ScheduleView> {
    return this.#change("resume", name, ({ state }, now) => afterResume(state, now));
  }

  /**
   * Changes when it fires, what it does with missed ticks and with overlaps, and the input of its jobs.
   *
   * @example
   *   await mill.schedules.edit("nightly", { cron: "0 4 * * *", input: { kind: "week" } });
   */
  edit(name: string, edits: ScheduleEdits): Promise<ScheduleView> {
    const what = `edit of ${JSON.stringify(name)}`;
    return this.#change("edit", name, ({ state }, now) => {
      const settings = settingsOf(state);
      const edit = readScheduleEdit(edits, settings, what);
      if (edits.input === undefined) return afterEdit(state, edit, now);
      const input = this.#needs.coder.encode(edits.input, "input");
      return afterEdit(state, { ...edit, job: withInput(settings.job, input, what) }, now);
    });
  }

  /** Drops all edits: the schedule is as the code defines it. */
  reset(name: string): Promise<ScheduleView> {
    return this.#change("reset", name, ({ state }, now) => afterReset(state, now));
  }

  /** Makes one job or flow at once, even if the schedule is paused or has ended. @returns its id. */
  async runNow(name: string): Promise<string> {
    checkName(name, "schedules.runNow: name");
    return asOneCall(this.#needs, { what: "schedules.runNow" }, (needs) => fireNow(needs, name));
  }

  /** Deletes the schedule and its backfill; its jobs stay. @returns false if there was no such schedule. */
  async delete(name: string): Promise<boolean> {
    checkName(name, "schedules.delete: name");
    const { schedules } = this.#needs;
    return asOneCall(this.#needs, { what: "schedules.delete" }, async (needs) => {
      const docs = [
        ...(await findDocs(needs, scheduleKind, name)),
        ...(await findDocs(needs, backfillKind, name)),
      ];
      await needs.store.putDocs(
        docs.map(({ kind, id }) => ({ kind, id, body: null, guard: "any" as const })),
      );
      schedules.delete(name);
      return docs.some(({ kind }) => kind === scheduleKind);
    });
  }

  /** The next ticks by the store's clock, without jitter, whether it is paused or not. */
  async next(name: string, count = 10): Promise<readonly Date[]> {
    checkName(name, "schedules.next: name");
    checkWhole(count, "schedules.next: count", 1, nextMax);
    const { state } = await mustFind(this.#needs, name);
    const now = await serverTime(this.#needs);
    const { rule } = settingsOf(state);
    const left = rule.limit === null ? count : Math.min(count, rule.limit - state.fired);
    const ticks: Date[] = [];
    for (let after = Math.max(now, state.position); ticks.length < left;) {
      const tick = nextTick(rule, after);
      if (tick === null) break;
      ticks.push(new Date(tick));
      after = tick;
    }
    return ticks;
  }

  /**
   * Fires the ticks of a range in the past, up to `atOnce` at a time. A tick that has fired before makes no second job.
   */
  async backfill(name: string, options: BackfillOptions): Promise<BackfillProgress> {
    checkName(name, "schedules.backfill: name");
    return asOneCall(this.#needs, { what: "schedules.backfill" }, (needs) =>
      beginBackfill(needs, name, options),
    );
  }

  /** The progress of the last backfill; null if there was none, or if it ended a week ago. */
  async backfillProgress(name: string): Promise<BackfillProgress | null> {
    checkName(name, "schedules.backfillProgress: name");
    return readProgress(this.#needs, name);
  }

  /** Fires no more ticks of the backfill; its jobs run on. @returns false if there was none. */
  async stopBackfill(name: string): Promise<boolean> {
    checkName(name, "schedules.stopBackfill: name");
    return asOneCall(this.#needs, { what: "schedules.stopBackfill" }, (needs) => stopBackfill(needs, name));
  }

  async #change(
    what: string,
    name: string,
    decide: (found: ReadableSchedule, now: number) => ScheduleState | null,
  ): Promise<ScheduleView> {
    checkName(name, `schedules.${what}: name`);
    const changed = await asOneCall(this.#needs, { what: `schedules.${what}` }, (needs) =>
      changeSchedule(needs, name, decide),
    );
    return viewSchedule(this.#needs, changed);
  }
}

async function fireNow(needs: SchedulesNeeds, name: string): Promise<string> {
  for (let tries = 0; tries < triesMax; tries++) {
    const { doc, state, template } = await mustFind(needs, name);
    const id = needs.ids.mint(partitionOfDoc(needs, doc.id));
    const now = await serverTime(needs);
    const jobs = jobsOfFiring(template, { id, schedule: name, tick: null });
    const answer = await needs.submitter.submit({
      jobs,
      docs: [schedulePut(doc, afterRunNow(state, id), now)],
    });
    if (answer.kind === "ok") return id;
    if (answer.reason !== "doc-changed") throw refusalError(answer, jobs);
    // If the reply of the first try was lost, its repeat is refused by the version that the first try raised.
    if ((await needs.reads.add(id)) !== null) return id;
  }
  throw contended(name);
}
