/**
 * The user's own hook for jobs that have failed for good (`onFailed` of open). It is called by the process that ended
 * the job, once the store has the end: a worker after the last attempt, or a duty after a crash loop, a timeout, a
 * deadline, a time-to-live, or the wait for a handler. A process that dies in between calls nobody: what must happen
 * with each failure belongs to `whenFailed` or to a reader of events.
 */
import type { ChangeNext, SettleNext } from "../../model/job/change.ts";
import type { Needs } from "../services.ts";
import { guardSink } from "./attempt-sink.ts";

/** A job that will not run again by itself. */
export interface FailureReport {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly state: "failed" | "expired";
  /** Why it ended, such as retries-exhausted, crash-loop, deadline or no-handler. */
  readonly reason: string;
  /** The number of its last attempt; 0 if it never ran. */
  readonly attempt: number;
  /** The worker whose attempt was the last; null if a duty ended the job. */
  readonly worker: string | null;
}

export type OnFailed = (report: FailureReport) => unknown;

/** Never throws. */
export type ReportFailure = (
  job: Omit<FailureReport, "state" | "reason">,
  next: ChangeNext | SettleNext,
) => void;

export function failureReporter(needs: Needs<"platform" | "repeated">, sink: OnFailed): ReportFailure {
  const call = guardSink(needs, "onFailed", sink, "failures");
  return (job, next) => {
    const { to } = next;
    if (to === "failed" || to === "expired") call(() => ({ ...job, state: to, reason: next.reason ?? "" }));
  };
}
