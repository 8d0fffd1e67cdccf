/**
 * A schedule as code defines it: a name, the job with its input, and when. Everything that can be refused without the
 * store is refused here, where somebody wrote it.
 */
import { checkName } from "../../model/name.ts";
import { checkOptions } from "../../model/option.ts";
import { readScheduleSettings } from "../../model/schedule/schedule-settings.ts";
import type { ScheduleOptions as RuleOptions } from "../../model/schedule/schedule-settings.ts";
import { ruleKeys } from "../../model/schedule/schedule-rule.ts";
import { anySubmission, checkDefinition } from "../submit/job-definition.ts";
import type { JobDefinition, Submission } from "../submit/job-definition.ts";
import { enqueueKeys, ownKeys, refuseLater } from "../submit/job-options.ts";
import type { EnqueueOptions, OwnOption } from "../submit/job-options.ts";

/** When it fires, and the options of the jobs that it makes. */
export type ScheduleOptions<In = unknown> = RuleOptions &
  Omit<EnqueueOptions<In>, OwnOption | "delay" | "runAt">;

export interface ScheduleDefinition {
  readonly name: string;
  readonly submission: Submission;
  /** Checked, but as given: the job is planned by the process that defines it in a store. */
  readonly rule: RuleOptions;
}

const ruleOptionKeys: readonly string[] = [...ruleKeys, "missed", "overlap"];
/** What says which job it is, or when it is due, is the schedule's own. */
const notOfSchedules = [...ownKeys, "delay", "runAt"];
const knownKeys = [...ruleOptionKeys, ...enqueueKeys.filter((key) => !notOfSchedules.includes(key))];

/** A schedule for `work(handlers, { schedules: [...] })`. */
export function schedule<In, Out, Result, Returned>(
  name: string,
  job: JobDefinition<In, Out, Result, Returned>,
  input: NoInfer<In>,
  options: ScheduleOptions<NoInfer<In>>,
): ScheduleDefinition {
  checkName(name, "schedule: name");
  const what = `schedule ${JSON.stringify(name)}`;
  checkDefinition(job, what);
  refuseLater(options, what);
  const entries = Object.entries(checkOptions(options, what, knownKeys));
  const rule = Object.fromEntries(entries.filter(([key]) => ruleOptionKeys.includes(key))) as RuleOptions;
  readScheduleSettings(rule, "", what);
  const jobOptions = Object.fromEntries(entries.filter(([key]) => !ruleOptionKeys.includes(key)));
  const given = entries.length === Object.keys(rule).length ? undefined : jobOptions;
  return Object.freeze({ name, rule, submission: anySubmission(job, input, given as EnqueueOptions<In>) });
}

export function isScheduleDefinition(value: unknown): value is ScheduleDefinition {
  return typeof value === "object" && value !== null && "submission" in value && "rule" in value;
}
