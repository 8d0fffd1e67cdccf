/**
 * A schedule as code defines it: a name, the job with its input or the flow, and when. Everything that can be refused
 * without the store is refused here, where somebody wrote it.
 */
import { checkName } from "../../model/name.ts";
import { checkOptions } from "../../model/option.ts";
import { readScheduleSettings } from "../../model/schedule/schedule-settings.ts";
import type { Duration } from "../../model/duration.ts";
import type { CalendarOptions } from "../../model/schedule/calendar.ts";
import type { ScheduleOptions as RuleOptions } from "../../model/schedule/schedule-settings.ts";
import { ruleKeys } from "../../model/schedule/schedule-rule.ts";
import { Flow } from "../flows/flow.ts";
import type { AnyFlow } from "../flows/flow.ts";
import { readSubmitOptions, submitKeys } from "../flows/submit-options.ts";
import type { SubmitFlowOptions } from "../flows/submit-options.ts";
import { anySubmission, checkDefinition } from "../submit/job-definition.ts";
import type { JobDefinition, Submission } from "../submit/job-definition.ts";
import { enqueueKeys, ownKeys } from "../submit/job-options.ts";
import type { EnqueueOptions, OwnOption } from "../submit/job-options.ts";

/** A schedule says when it fires in one of three ways. */
type AnyRule = { cron: string } | { every: Duration } | { calendar: CalendarOptions };

/** When it fires, and the options of the jobs that it makes. */
export type ScheduleOptions<In = unknown> = RuleOptions &
  AnyRule &
  Omit<EnqueueOptions<In>, OwnOption | "delay" | "runAt">;

/** When it fires, and the options of the flows that it makes. */
export type ScheduleFlowOptions = RuleOptions & Omit<SubmitFlowOptions, OwnFlowOption>;

/** What a firing makes. */
export type ScheduleMakes = Submission | { readonly flow: AnyFlow; readonly options: SubmitFlowOptions };

export interface ScheduleDefinition {
  readonly name: string;
  readonly makes: ScheduleMakes;
  /** Where the code calls `schedule()`, for the error of two that differ. */
  readonly at: string;
  /** Checked, but as given: the job is planned by the process that defines it in a store. */
  readonly rule: RuleOptions;
}

const ruleOptionKeys: readonly string[] = [...ruleKeys, "missed", "overlap"];
/** What says which job it is, or when it is due, is the schedule's own. */
const notOfSchedules = [...ownKeys, "delay", "runAt"];
const jobKeys = [...ruleOptionKeys, ...enqueueKeys.filter((key) => !notOfSchedules.includes(key))];
type OwnFlowOption = "key" | "repeatOf";
const flowKeys = [...ruleOptionKeys, ...submitKeys.filter((key) => key !== "key" && key !== "repeatOf")];

/**
 * A schedule for `work(handlers, { schedules: [...] })`. Each tick makes a job, or a flow.
 *
 * @example
 *   schedule("nightly", report, { kind: "day" }, { cron: "0 3 * * *" });
 *   schedule("monthly", monthlyReport, { calendar: { at: "06:00", days: [1] } }); // a flow
 */
export function schedule<In, Out, Result, Returned>(
  name: string,
  job: JobDefinition<In, Out, Result, Returned>,
  input: NoInfer<In>,
  options: ScheduleOptions<NoInfer<In>>,
): ScheduleDefinition;
export function schedule(name: string, flow: AnyFlow, options: ScheduleFlowOptions): ScheduleDefinition;
export function schedule(
  name: string,
  makes: JobDefinition | AnyFlow,
  ...given: readonly unknown[]
): ScheduleDefinition {
  checkName(name, "schedule: name");
  const what = `schedule ${JSON.stringify(name)}`;
  if (makes instanceof Flow) {
    const { rule, own } = readOptions(given[0], flowKeys, what);
    readSubmitOptions(makes, own);
    return Object.freeze({ name, rule, at: callerLine(schedule), makes: { flow: makes, options: own } });
  }
  checkDefinition(makes, what);
  const [input, options] = given;
  const { rule, own } = readOptions(options, jobKeys, what);
  const jobOptions = Object.keys(own).length === 0 ? undefined : (own as EnqueueOptions);
  const submission = anySubmission(makes, input, jobOptions) as Submission;
  return Object.freeze({ name, rule, at: callerLine(schedule), makes: submission });
}

/** The options that say when, and those of what it makes. */
function readOptions(
  options: unknown,
  known: readonly string[],
  what: string,
): { readonly rule: RuleOptions; readonly own: object } {
  const entries = Object.entries(checkOptions(options, what, known));
  const isOfRule = ([key]: readonly [string, unknown]): boolean => ruleOptionKeys.includes(key);
  const rule = Object.fromEntries(entries.filter(isOfRule)) as RuleOptions;
  readScheduleSettings(rule, "", what);
  return { rule, own: Object.fromEntries(entries.filter((entry) => !isOfRule(entry))) };
}

/** The line that called this function, such as "at file:///app/schedules.ts:12:5". */
function callerLine(callee: (...given: never[]) => unknown): string {
  const trace: { stack?: string } = {};
  Error.captureStackTrace(trace, callee);
  return trace.stack?.split("\n")[1]?.trim() ?? "at an unknown place";
}

export function isScheduleDefinition(value: unknown): value is ScheduleDefinition {
  return typeof value === "object" && value !== null && "makes" in value && "rule" in value;
}
