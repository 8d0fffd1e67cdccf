/**
 * The user's own sink for attempts (`onAttempt` of open), for StatsD and the like. It can never hurt a job: it is
 * called when the store has the attempt's end, what it throws or rejects with is caught, counted and logged, and one
 * that does not keep up with what it began is left out until it does.
 */
import type { SettleNext } from "../../model/job/change.ts";
import { endedAs } from "./attempt-observer.ts";
import type { AttemptObserver, EndedAs, ObservedAttempt } from "./attempt-observer.ts";
import type { Needs } from "../services.ts";

/** An attempt that has ended, as the sink is told of it. */
export interface AttemptReport {
  /** The job's id. */
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  /** From 1 on. */
  readonly attempt: number;
  readonly worker: string;
  /** In the words of the feed: completed, failed, retry-scheduled, snoozed and so on; or lost. */
  readonly outcome: EndedAs;
  /** The state in which the job is now; null where the attempt was lost. */
  readonly state: SettleNext["to"] | null;
  /** Why the job ended, for one that ended without completing. */
  readonly reason: string | null;
  /** From the time at which the job was due until its handler was called, in microseconds. */
  readonly waitedUs: number;
  /** How long the handler ran, in microseconds. */
  readonly ranUs: number;
}

export type OnAttempt = (report: AttemptReport) => unknown;

/** Promises of a sink that are not settled yet; beyond that attempts are not told to it. */
export const sinkPendingMax = 1000;
/** A sink that holds the event loop up for longer is complained about. */
const slowUs = 50_000;

/** @returns an observer that never throws. */
export function observerOfSink(needs: Needs<"platform" | "repeated">, sink: OnAttempt): AttemptObserver {
  const { platform, repeated } = needs;
  let pending = 0;
  const failed = (error: unknown): void =>
    repeated.say("error", "onAttempt failed; the job is settled all the same", { error });
  return (attempt) => {
    if (pending >= sinkPendingMax)
      return repeated.say("warn", "onAttempt does not keep up; attempts are not told to it", { pending });
    const beganUs = platform.monotonicUs();
    try {
      const returned = sink(reportOf(attempt));
      if (returned instanceof Promise) {
        pending += 1;
        returned.catch(failed).finally(() => (pending -= 1));
      }
    } catch (error) {
      failed(error);
    }
    const tookMs = Math.round((platform.monotonicUs() - beganUs) / 1000);
    if (tookMs * 1000 >= slowUs)
      repeated.say("warn", "onAttempt holds up the event loop of this process", { tookMs });
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
    waitedUs,
    ranUs,
  };
}
