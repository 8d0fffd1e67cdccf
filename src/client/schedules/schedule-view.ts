/** A schedule as people see it. */
import type { Needs } from "../../engine/services.ts";
import type { FiringTemplate } from "../../engine/schedules/firing-template.ts";
import type { FoundSchedule } from "../../engine/schedules/schedule-docs.ts";
import { redact } from "../../codec/redact.ts";
import { scheduleStatus } from "../../model/schedule/decide-schedule.ts";
import type { Missed } from "../../model/schedule/due-ticks.ts";
import type { Overlap } from "../../model/schedule/overlap.ts";
import type { ScheduleRule } from "../../model/schedule/schedule-rule.ts";
import { settingsOf } from "../../model/schedule/schedule-state.ts";

type ScheduleViewNeeds = Needs<"coder" | "policies">;

export interface ScheduleView {
  readonly name: string;
  /**
   * "ended": it has no tick or no firing left. "unreadable": this process cannot read its document, and `problem` says
   * why. It then does not fire here; other schedules do.
   */
  readonly status: "active" | "paused" | "ended" | "unreadable";
  readonly problem: string | null;
  /** The name, the queue and the input of its jobs; null for one that makes flows, and for an unreadable one. */
  readonly job: { readonly name: string; readonly queue: string; readonly input: unknown } | null;
  /** The name of its flows, and how many nodes they have; null for one that makes jobs. */
  readonly flow: { readonly name: string; readonly nodes: number } | null;
  readonly rule: ScheduleRule | null;
  readonly missed: Missed | null;
  readonly overlap: Overlap | null;
  /** The settings that an operator has changed since the code defined them. */
  readonly edited: readonly string[];
  /** When it fires next, jitter included; null for never. */
  readonly next: Date | null;
  readonly lastTick: Date | null;
  readonly lastJob: string | null;
  /** A tick that waits for the previous job to end (overlap "queue-one"). */
  readonly queued: Date | null;
  readonly fired: number;
  readonly skipped: number;
}

const nothing = {
  ...{ job: null, flow: null, rule: null, missed: null, overlap: null, edited: [], next: null },
  ...{ lastTick: null, lastJob: null, queued: null, fired: 0, skipped: 0 },
};

export function viewSchedule(needs: ScheduleViewNeeds, found: FoundSchedule): ScheduleView {
  const { name, state, template, problem, doc } = found;
  if (state === null || template === null) return { ...nothing, name, status: "unreadable", problem };
  const { rule, missed, overlap } = settingsOf(state);
  const { lastTick, lastJob, queued, fired, skipped } = state;
  return {
    name,
    status: scheduleStatus(state),
    problem: null,
    ...viewMade(needs, template),
    ...{ rule, missed, overlap },
    edited: Object.keys(state.edited).map((key) => (key === "job" ? "input" : key)),
    next: dateOf(doc.dueAt),
    lastTick: dateOf(lastTick),
    lastJob,
    queued: dateOf(queued),
    ...{ fired, skipped },
  };
}

function viewMade(
  needs: ScheduleViewNeeds,
  { whole, members }: FiringTemplate,
): Pick<ScheduleView, "job" | "flow"> {
  const { name, queue } = whole;
  if (members !== null) return { job: null, flow: { name, nodes: members.length } };
  return { job: { name, queue, input: shownInput(needs, whole) }, flow: null };
}

function shownInput(
  needs: ScheduleViewNeeds,
  { input, policy }: { input: string; policy: string | null },
): unknown {
  try {
    return redact(needs.coder.decode(input), needs.policies.read(policy).redact ?? []);
  } catch {
    return "[unreadable]";
  }
}

function dateOf(at: number | null): Date | null {
  return at === null ? null : new Date(at);
}
