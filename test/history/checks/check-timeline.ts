/** The life of each job by its events: invariants 15, 18 to 21, 23 to 25, 27 and, for a single job, 45. */
import { isFailure, readAttemptLog } from "../../../src/model/job/attempt-log.ts";
import { readEntry } from "../../../src/model/durable/entry-text.ts";
import type { EndReason } from "../../../src/model/job/end-reason.ts";
import { canMove, isTerminal } from "../../../src/model/job/job-state.ts";
import type { JobState } from "../../../src/model/job/job-state.ts";
import { defaultAttempts, defaultBackoff, plannedDelayMs } from "../../../src/model/job/retry-policy.ts";
import type { NewJob } from "../../../src/store/records.ts";
import { leaseKey, runsNoHandler } from "../ledger.ts";
import { policyOf } from "../policy-of.ts";
import type { Ledger, TimelineEvent, Violation } from "../ledger.ts";

export function* checkTimelines(ledger: Ledger): Generator<Violation> {
  for (const [id, events] of ledger.timelines) {
    yield* arrowsAreKept(id, events);
    if (!ledger.ending.has(id)) yield* cancelledJobsAreNotClaimed(id, events);
    yield* attemptsAreCounted(ledger, id, events);
    yield* delaysAreInBounds(ledger, id, events);
    if (runsNoHandler(ledger, id)) continue;
    yield* failuresHaveReasons(ledger, id, events);
    yield* errorsAreKept(ledger, id, events);
  }
  yield* timesAreInOrder(ledger);
}

/** What may be told of a job that has ended: it comes back, is edited, or its end goes along more of its edges. */
const afterTheEnd: ReadonlySet<string> = new Set(["replayed", "edited", "passed-on"]);

function* arrowsAreKept(id: string, events: readonly TimelineEvent[]): Generator<Violation> {
  let state: JobState | null = null;
  for (const event of events) {
    const from = state;
    state = event.state;
    if (event.kind === "deleted") {
      if (from === null || from === "running")
        yield { invariant: 18, id, message: `${id} was deleted while it was ${from ?? "not there"}` };
      continue;
    }
    if (event.state === null || (from === null) !== (event.kind === "submitted")) {
      yield { invariant: 18, id, message: `${id}: ${event.kind} out of ${from ?? "nothing"}` };
      continue;
    }
    if (from === null) {
      if (!canMove("submit", event.state))
        yield { invariant: 18, id, message: `${id} was born as ${event.state}` };
      continue;
    }
    if (isTerminal(from) && !afterTheEnd.has(event.kind)) {
      const invariant = event.kind === "reclaimed" || event.kind === "promoted" ? 15 : 19;
      yield { invariant, id, message: `${id} had ended as ${from}, then came ${event.kind}` };
      continue;
    }
    if (from !== event.state && !canMove(from, event.state))
      yield { invariant: 18, id, message: `${id} went from ${from} to ${event.state} by ${event.kind}` };
    if (event.kind === "claimed" && from !== "ready")
      yield { invariant: 13, id, message: `${id} was claimed while it was ${from}` };
  }
}

function* cancelledJobsAreNotClaimed(id: string, events: readonly TimelineEvent[]): Generator<Violation> {
  let isAsked = false;
  for (const { kind } of events) {
    if (kind === "claimed" && isAsked)
      yield { invariant: 45, id, message: `${id} was claimed again after its cancel was asked for` };
    if (kind === "cancel-asked") isAsked = true;
    else if (kind === "replayed" || kind === "submitted") isAsked = false;
  }
}

const isDurable = ({ specs }: Ledger, id: string): boolean =>
  (specs.get(id) ?? []).some((spec) => (policyOf(spec).durable ?? null) !== null);

const attemptsOf = (spec: NewJob): number => policyOf(spec).attempts ?? defaultAttempts;

function* attemptsAreCounted(
  ledger: Ledger,
  id: string,
  events: readonly TimelineEvent[],
): Generator<Violation> {
  const specs = ledger.specs.get(id) ?? [];
  const allowed = Math.max(...specs.map(attemptsOf), 0);
  let attempt = 0;
  let counts: readonly number[] = [1];
  let extra = 0;
  const isRun = isDurable(ledger, id);
  for (const event of events) {
    // A run that gets further, or waits, counts its attempts anew, without an event.
    if (isRun && event.kind !== "claimed") {
      attempt = event.attempt;
      counts = [0, 1];
      if (event.kind !== "replayed" && event.kind !== "deleted") continue;
    }
    switch (event.kind) {
      case "claimed": {
        if (!counts.includes(event.attempt - attempt))
          yield {
            invariant: 20,
            id,
            message: `${id}: attempt ${attempt} was followed by ${event.attempt}, which should count ${counts.join(" or ")}`,
          };
        if (event.attempt > allowed + extra)
          yield { invariant: 20, id, message: `${id}: attempt ${event.attempt} of ${allowed + extra}` };
        attempt = event.attempt;
        counts = [1];
        break;
      }
      case "snoozed":
      case "throttled":
      case "handed-back":
      case "revoked":
        counts = [0];
        break;
      case "reclaimed":
        // It depends on whether the handler had started, which the event does not tell.
        counts = [0, 1];
        break;
      case "replayed":
        if (event.attempt !== 0) extra += 1;
        attempt = event.attempt;
        counts = [1];
        break;
      case "deleted":
        attempt = 0;
        extra = 0;
        counts = [1];
        break;
      default:
        break;
    }
  }
}

function* failuresHaveReasons(
  ledger: Ledger,
  id: string,
  events: readonly TimelineEvent[],
): Generator<Violation> {
  const specs = ledger.specs.get(id) ?? [];
  const least = Math.min(...specs.map(attemptsOf));
  for (const event of events) {
    if (event.kind !== "failed") continue;
    const isExhausted = event.extra === "retries-exhausted" || event.extra === "crash-loop";
    const isFinal = event.extra === "unrecoverable" && hasEnded(ledger, id, "unrecoverable");
    const isThrottled =
      event.extra === "throttles-exhausted" &&
      specs.some((spec) => throttlesBefore(events, event) >= (policyOf(spec).throttlesMax ?? Infinity));
    const isRuns = durableReasons.has(event.extra as EndReason) || isEndingOf(ledger, id, event.extra);
    if (!(isExhausted && event.attempt >= least) && !isFinal && !isThrottled && !isRuns)
      yield {
        invariant: 21,
        id,
        message: `${id} failed after attempt ${event.attempt} with the reason ${event.extra}`,
      };
  }
}

/** Ends of durable runs that need no used-up attempts. */
const durableReasons: ReadonlySet<EndReason> = new Set([
  "step-failed",
  "diverged",
  "journal-full",
  "undo-failed",
]);

/** Whether a journal of the run says that it was to end so. */
function isEndingOf({ journalActs }: Ledger, id: string, reason: TimelineEvent["extra"]): boolean {
  // A later round has another journal.
  const appended = journalActs.flatMap((act) => (act.id === id ? act.entries : []));
  return appended.some(({ key, body: text }) => {
    const { body } = readEntry({ number: 0, at: 0, key, body: text });
    return body.kind === "ending" && body.reason === reason;
  });
}

const throttlesBefore = (events: readonly TimelineEvent[], end: TimelineEvent): number =>
  events.slice(0, events.indexOf(end)).filter(({ kind }) => kind === "throttled").length;

function hasEnded(ledger: Ledger, id: string, how: string): boolean {
  return ledger.evidence.effects.some(
    (effect) => effect.id === id && effect.kind === "ended" && effect.how === how,
  );
}

function* delaysAreInBounds(
  ledger: Ledger,
  id: string,
  events: readonly TimelineEvent[],
): Generator<Violation> {
  let fence: number | undefined;
  let claimedAs = 0;
  for (const event of events) {
    if (event.kind === "claimed") {
      fence = ledger.leases.find((lease) => lease.id === id && lease.rev === event.rev)?.fence;
      claimedAs = event.attempt;
    }
    if (event.kind !== "retry-scheduled" && event.kind !== "reclaimed") continue;
    const delayMs = event.state === "scheduled" ? Number(event.extra) - event.at : 0;
    const asked =
      fence === undefined
        ? undefined
        : ledger.effects.get(leaseKey({ id, fence }))?.find(({ retryInMs }) => retryInMs !== undefined);
    // An attempt that was cut off before it could ask counts by its backoff, so both are allowed.
    if (delayMs === asked?.retryInMs) continue;
    // A run counts anew once it gets further, and its worker may not have heard that it did.
    const attempts = isDurable(ledger, id) ? [event.attempt, claimedAs] : [event.attempt];
    const isAllowed = (ledger.specs.get(id) ?? []).some((spec) => {
      const backoff = policyOf(spec).backoff ?? defaultBackoff;
      if (backoff.kind === "custom") return true;
      if (event.kind === "reclaimed" && delayMs === 0) return true;
      return attempts.some((attempt) => {
        const planned = plannedDelayMs(backoff, Math.max(1, attempt));
        const least = { none: planned, half: planned / 2, full: 0 }[backoff.jitter];
        return delayMs >= least && delayMs <= planned;
      });
    });
    if (!isAllowed)
      yield { invariant: 27, id, message: `${id}: ${event.kind} after ${delayMs} ms, outside the policy` };
  }
}

function* errorsAreKept(ledger: Ledger, id: string, events: readonly TimelineEvent[]): Generator<Violation> {
  const record = ledger.records.get(id);
  if (record === undefined || events.some(({ kind }) => kind === "deleted")) return;
  // A run that gets further, or waits, empties its attempt log.
  if (isDurable(ledger, id)) return;
  const log = readAttemptLog(record.attempts);
  const entries = log.entries.filter((entry) => isFailure(entry) && entry.outcome !== "expired");
  const { dropped } = log;
  const count = (...kinds: readonly string[]): number =>
    events.filter(({ kind }) => kinds.includes(kind)).length;
  // A job whose lease was revoked did nothing wrong, and no error is kept.
  const least = count("retry-scheduled", "reclaimed", "failed");
  // A handler that threw after its cancel was asked for leaves an error as well; one that was never told leaves none.
  // Entries of attempts that were given back may be among the dropped ones.
  const most = least + count("cancelled") + (dropped > 0 ? count("snoozed", "throttled") : 0);
  const kept = entries.length + dropped;
  if (kept < least || kept > most)
    yield {
      invariant: 23,
      id,
      message: `${id} keeps ${kept} errors for ${least} to ${most} failed attempts`,
    };
}

function* timesAreInOrder(ledger: Ledger): Generator<Violation> {
  let last = Number.NEGATIVE_INFINITY;
  for (const { at, number } of ledger.evidence.snapshot.feed) {
    if (at < last)
      yield {
        invariant: 24,
        message: `the store's time went back from ${last} to ${at} in record ${number}`,
      };
    last = at;
  }
  for (const { id, createdAt, claimedAt, endedAt } of ledger.records.values())
    if ((claimedAt ?? createdAt) < createdAt || (endedAt ?? Infinity) < (claimedAt ?? createdAt))
      yield {
        invariant: 24,
        id,
        message: `${id}: created ${createdAt}, claimed ${claimedAt}, ended ${endedAt}`,
      };
  for (const { id, dueAt, claimedAt, fence } of ledger.leases)
    if (dueAt > claimedAt)
      yield {
        invariant: 25,
        id,
        message: `${id}#${fence} was claimed at ${claimedAt}, before it was due at ${dueAt}`,
      };
}
