/**
 * The user's own sink for attempts (`onAttempt` of open), for StatsD and the like. It can never affect a job: it is
 * called after the store has the attempt's end, and its errors are caught, counted and logged. A sink that does not
 * keep up with its own promises is skipped until it does.
 */
import type { SettleNext } from "../../model/job/change.ts";
import { endedAs } from "./attempt-observer.ts";
import type { AttemptObserver, EndedAs, ObservedAttempt } from "./attempt-observer.ts";
import type { Needs } from "../services.ts";

/** An attempt that has ended, as the sink gets it. */
export interface AttemptReport {
  /** The job's id. */
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  /** Counted from 1. */
  readonly attempt: number;
  readonly worker: string;
  /** In the words of the feed: completed, failed, retry-scheduled, snoozed and so on; or lost. */
  readonly outcome: EndedAs;
  /** The state of the job now; null if the attempt was lost. */
  readonly state: SettleNext["to"] | null;
  /** Why the job ended; null if it completed or has not ended. */
  readonly reason: string | null;
  /** From the time at which the job was due until its handler was called, such as 0.4. */
  readonly waitedMs: number;
  /** How long the handler ran, such as 0.4. */
  readonly ranMs: number;
}

export type OnAttempt = (report: AttemptReport) => unknown;

/** How many promises of a sink may be pending; with more, it is skipped. */
export const sinkPendingMax = 1000;
/**
 * A sink that blocks the event loop for as long, so often in a row, is logged. A single call may be slow for another
 * reason: the first one loads what it needs, and this process may have waited for a processor.
 */
const slowUs = 50_000;
const slowCallsMin = 3;

/** @returns an observer that never throws. */
export function observerOfSink(needs: Needs<"platform" | "repeated">, sink: OnAttempt): AttemptObserver {
  const call = guardSink(needs, "onAttempt", sink, "attempts");
  return (attempt) => call(() => reportOf(attempt));
}

/**
 * Calls a function of the user that can never hurt: it does not throw, and a call is skipped while too many before it
 * have not settled.
 */
export function guardSink<Report>(
  { platform, repeated }: Needs<"platform" | "repeated">,
  name: string,
  sink: (report: Report) => unknown,
  missed: string,
): (report: () => Report) => void {
  let pending = 0;
  let slowCalls = 0;
  const failed = (error: unknown): void =>
    repeated.say("error", `${name} failed; the job is not affected`, { error });
  return (report) => {
    if (pending >= sinkPendingMax)
      return repeated.say("warn", `${name} does not keep up; it misses ${missed} until it does`, { pending });
    const beganUs = platform.monotonicUs();
    try {
      const returned = sink(report());
      if (returned instanceof Promise) {
        pending += 1;
        returned.catch(failed).finally(() => (pending -= 1));
      }
    } catch (error) {
      failed(error);
    }
    const tookMs = Math.round((platform.monotonicUs() - beganUs) / 1000);
    slowCalls = tookMs * 1000 >= slowUs ? slowCalls + 1 : 0;
    if (slowCalls >= slowCallsMin)
      repeated.say("warn", `${name} blocks the event loop of this process`, { tookMs });
  };
}

function reportOf(attempt: ObservedAttempt): AttemptReport {
  const { job, owner, title, settled, waitedUs, ranUs } = attempt;
  return {
    id: job.id,
    name: title.name,
    queue: title.queue,
    attempt: job.attempt,
    worker: owner,
    outcome: endedAs(attempt),
    state: settled === null ? null : settled.to,
    reason: settled !== null && "reason" in settled ? settled.reason : null,
    waitedMs: waitedUs / 1000,
    ranMs: ranUs / 1000,
  };
}
