/** A job with a due clock, as every store returns it to the duty that decides about it. */
import { stateOfCode } from "../model/job/job-state.ts";
import { dueFields, answeredOtherwise } from "./job-fields.ts";
import type { JobFieldName, JobRow } from "./job-fields.ts";
import type { Clock } from "./operations.ts";
import type { DueJob } from "./records.ts";
import { clockFields } from "./rules/guard.ts";

const asTheyAre = dueFields.filter(
  (name: JobFieldName) => !(answeredOtherwise as readonly string[]).includes(name),
);

export function dueJobOf(
  row: Pick<JobRow, (typeof dueFields)[number]>,
  { clock, now }: { readonly clock: Clock; readonly now: number },
): DueJob {
  return {
    ...(Object.fromEntries(asTheyAre.map((name) => [name, row[name]])) as unknown as DueJob),
    state: stateOfCode(row.state),
    cancelAsked: row.cancelAsked === 1,
    started: row.startedAt !== null,
    lateMs: now - (row[clockFields[clock]] ?? now),
  };
}

/** How far away a clock is; null for none. */
export function untilMs(clockAt: number | null, now: number): number | null {
  return clockAt === null ? null : Math.max(0, clockAt - now);
}
