/**
 * The history checker: one program for simulated and for real runs. It takes the evidence and gives the violated
 * invariants (invariants.ts), each with a sentence, and can tell the story of a job.
 */
import { checkAcceptance } from "./check-acceptance.ts";
import { checkCapabilities } from "./check-capabilities.ts";
import { checkClosed } from "./check-closed.ts";
import { checkCounters } from "./check-counters.ts";
import { checkDurableRuns } from "./check-durable-runs.ts";
import { checkEnds } from "./check-ends.ts";
import { checkFlows } from "./check-flows.ts";
import { checkJournals } from "./check-journals.ts";
import { checkLimits } from "./check-limits.ts";
import { checkOrder } from "./check-order.ts";
import { checkOutput } from "./check-output.ts";
import { checkOwnership } from "./check-ownership.ts";
import { checkDeletion } from "./check-deletion.ts";
import { checkSchedules } from "./check-schedules.ts";
import { checkTimelines } from "./check-timeline.ts";
import type { Evidence } from "../history.ts";
import { checkLanes } from "./check-lanes.ts";
import { openLedger } from "../ledger.ts";
import type { Ledger, Violation } from "../ledger.ts";

const checks = [
  checkAcceptance,
  checkOwnership,
  checkTimelines,
  checkOrder,
  checkLimits,
  checkClosed,
  checkCapabilities,
  checkLanes,
  checkEnds,
  checkFlows,
  checkDeletion,
  checkSchedules,
  checkCounters,
  checkJournals,
  checkOutput,
  checkDurableRuns,
];

export function checkHistory(evidence: Evidence): readonly Violation[] {
  const ledger = openLedger(evidence);
  return checks.flatMap((check) => [...check(ledger)]);
}

/** Everything that is known about one job, in the order of the feed, for the report of a failure. */
export function printStory(evidence: Evidence, id: string): string {
  const ledger = openLedger(evidence);
  const events = (ledger.timelines.get(id) ?? []).map(
    ({ at, rev, kind, state, attempt, extra }) =>
      `  ${at} rev ${rev} ${kind} -> ${state} attempt ${attempt} ${extra ?? ""}`,
  );
  const spec = (ledger.specs.get(id) ?? []).map((each) => `  spec ${JSON.stringify(each)}`);
  return [`job ${id}`, ...spec, ...events, ...callsOf(ledger, id), ...effectsOf(evidence, id)].join("\n");
}

function callsOf(ledger: Ledger, id: string): readonly string[] {
  const leases = ledger.leases
    .filter((lease) => lease.id === id)
    .map(({ call, fence, owner, isAdopted, claimedAt, leaseMs }) => ({
      call,
      text: `${isAdopted ? "adopted" : "claimed"} #${fence} by ${owner} at ${claimedAt} for ${leaseMs} ms`,
    }));
  const writes = ledger.writes
    .filter((write) => write.id === id)
    .map(({ call, what, fence, answer, now, settle }) => ({
      call,
      text: `${what} #${fence} ${settle?.next.event ?? ""} = ${answer} ${now ?? ""}`,
    }));
  return [...leases, ...writes]
    .toSorted((left, right) => left.call.invokedUs - right.call.invokedUs)
    .map(
      ({ call, text }) =>
        `  [${call.invokedUs}..${call.answeredUs} us] ${call.actor} ${text} (${call.seen}, order ${call.order})`,
    );
}

function effectsOf(evidence: Evidence, id: string): readonly string[] {
  return evidence.effects
    .filter((effect) => effect.id === id)
    .map(
      ({ kind, fence, actor, atUs, how, wasAborted }) =>
        `  [${atUs} us] ${actor} handler #${fence} ${kind} ${how ?? ""} ${wasAborted === true ? "aborted" : ""}`,
    );
}

export type { Violation } from "../ledger.ts";
