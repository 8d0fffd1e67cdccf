/**
 * What must happen at least once over all seeds of a run. A simulation that never loses a lease proves nothing about
 * lost leases, so a counter that stays at 0 fails the run.
 */
import { isQueueGate } from "../../src/model/limits/gate.ts";
import { isGroupGate, isKeyedGate } from "../../src/model/routing/lane.ts";
import type { GatePut } from "../../src/store/records.ts";
import { sweepHolds } from "../history/checks/check-limits.ts";
import type { Evidence, GateAct } from "../history/history.ts";
import { firingOf } from "../history/firing-of.ts";
import { holdsFailed, keepsGroup } from "../history/lane-of.ts";
import type { Lane } from "../history/lane-of.ts";
import { openLedger } from "../history/ledger.ts";
import type { Ledger } from "../history/ledger.ts";

export const sometimes = [
  "a stale settle was refused",
  "a lease expired and was reclaimed",
  "an enqueue of unknown outcome had happened",
  "an enqueue of unknown outcome had not happened",
  "the reply of a claim was lost and its jobs were adopted",
  "a job was dead-lettered because its attempts were used up",
  "a job was dead-lettered because it kept killing its workers",
  "a clock stepped",
  "a running job was cancelled",
  "a job was handed back by a worker that stopped",
  "a settle was repeated and answered as already applied",
  "an attempt was given back by a snooze",
  "a job met its deadline or its time-to-live",
  "a handler was told to stop and did not",
  "a finished job was replayed",
  "a lease was revoked",
  "a job whose lease was revoked was completed by the next worker",
  "a purge deleted jobs",
  "a job waited at a full limit",
  "a job waited for the clock of its gate",
  "a cap was lowered below what had been held",
  "a queue was paused and resumed",
  "a throttled job was completed later",
  "a job that requires a capability was completed",
  "a job waited at a full key of a limit",
  "a job waited for its group",
  "a group that takes turns had its turn",
  "a retry held its group while another of it was ready",
  "a retry let its group go on",
  "a failed job held its group while another of it was ready",
  "a failed job that held its group was replayed",
  "a job was throttled and waited at its key",
  "the bounds of each key of a limit were edited",
  "the bounds of one key were edited",
  "a member of a flow was freed",
  "a member of a flow was skipped",
  "a member of a flow came back and waited again",
  "an end went along more edges in a later step",
  "the tick of a schedule made a job",
  "the tick of a schedule made a job more than a second late",
  "an add was refused because it would have passed its ceiling",
  "an add of unknown outcome had happened",
  "a signal was refused because its key was known",
  "a suspend was refused because the journal held more",
  "a signal resumed a run that was suspended",
  "the clock of a wait resumed a run",
  "the end of a child resumed a run",
  "a run began a new round",
  "a run that was to end badly has undone a step",
  "a step ran again, because its record was not known to have happened",
  "an answer by a token was accepted",
  "an answer by a token was refused",
] as const;
export type Sometimes = (typeof sometimes)[number];

export function countSometimes(evidence: Evidence, clockSteps: number, counts: Map<Sometimes, number>): void {
  const add = (what: Sometimes, count = 1): void => {
    if (count > 0) counts.set(what, (counts.get(what) ?? 0) + count);
  };
  add("a clock stepped", clockSteps);
  for (const call of evidence.operations) {
    switch (call.kind) {
      case "settleIfLeased":
        for (const { kind } of call.answer ?? []) {
          if (kind === "stale") add("a stale settle was refused");
          if (kind === "already") add("a settle was repeated and answered as already applied");
        }
        break;
      case "submit":
        if (call.seen === "unknown" && call.answeredUs !== null)
          add(
            call.answer === null
              ? "an enqueue of unknown outcome had not happened"
              : "an enqueue of unknown outcome had happened",
          );
        break;
      case "putDocs":
        for (const { kind } of call.answer ?? [])
          if (kind === "above") add("an add was refused because it would have passed its ceiling");
        if (call.seen === "unknown" && call.answer !== null) add("an add of unknown outcome had happened");
        break;
      case "purge":
        if (call.deleted > 0) add("a purge deleted jobs");
        break;
      case "claim":
        if (call.answer?.opensInMs !== undefined) add("a job waited for the clock of its gate");
        break;
      case "putGates":
        for (const [index, put] of call.request.entries())
          if (call.answer?.[index]?.kind === "ok") countPut(put, call.answer[index].version, add);
        break;
      case "open-gate":
        if (call.seen === "ok" && hasPaused(evidence, call)) add("a queue was paused and resumed");
        break;
      case "extendIfLeased":
        add("the reply of a claim was lost and its jobs were adopted", call.answer?.others.length ?? 0);
        break;
      default:
        break;
    }
  }
  for (const { wasAborted, how } of evidence.effects)
    if (wasAborted === true && how === "returned") add("a handler was told to stop and did not");
  countEvents(evidence, add);
  countRuns(evidence, add);
  const ledger = openLedger(evidence);
  if (ledger.lanes.size > 0 || evidence.operations.some(({ kind }) => kind === "putGates"))
    countHolds(ledger, add);
  countLanes(ledger, add);
  countFirings(ledger, add);
}

function countRuns({ operations, steps = [] }: Evidence, add: (what: Sometimes) => void): void {
  for (const call of operations) {
    if (call.kind === "token-answer" && call.said !== null) add(`an answer by a token was ${call.said}`);
    if (call.kind === "recordIfLeased")
      for (const { entries = [] } of call.request)
        if (entries.some(({ key }) => key.startsWith("undone:")))
          add("a run that was to end badly has undone a step");
    if (call.kind === "settleIfLeased")
      for (const [index, { next }] of call.request.entries()) {
        if (call.answer?.[index]?.kind === "arrived")
          add("a suspend was refused because the journal held more");
        if (next.to === "scheduled" && next.newRound === true) add("a run began a new round");
      }
    if (call.kind !== "changeIf") continue;
    for (const [index, { cases }] of call.request.entries()) {
      const answer = call.answer?.[index];
      if (answer?.kind === "repeated") add("a signal was refused because its key was known");
      if (answer?.kind !== "ok" || answer.from !== "suspended") continue;
      const { guard, append } = cases[answer.applied] ?? {};
      if (guard?.rang === "wake") add("the clock of a wait resumed a run");
      if (append?.entry.key.startsWith("signal:")) add("a signal resumed a run that was suspended");
      if (append?.entry.key.startsWith("child:")) add("the end of a child resumed a run");
    }
  }
  const begun = new Set<string>();
  for (const { id, round, call } of steps) {
    const step = `${id} ${round} ${call}`;
    if (begun.has(step)) add("a step ran again, because its record was not known to have happened");
    begun.add(step);
  }
}

const hasPaused = ({ operations }: Evidence, { key, invokedUs }: GateAct): boolean =>
  operations.some(
    (act) =>
      act.kind === "close-gate" &&
      act.seen === "ok" &&
      act.key === key &&
      isQueueGate(key) &&
      (act.answeredUs ?? Infinity) < invokedUs,
  );

function countHolds(ledger: Ledger, add: (what: Sometimes) => void): void {
  const waiting = new Map<string, ReadonlySet<string>>();
  const last = new Map<string, number>();
  for (const { event, taken } of sweepHolds(ledger)) {
    const { id, state, kind, route } = event;
    const asks = ledger.routes.get(route);
    const uses = [...(asks?.gates ?? []), ...(ledger.lanes.get(id)?.uses ?? [])];
    waiting.delete(id);
    if (state === "ready") waiting.set(id, new Set(uses.map(({ key }) => key)));
    if (kind === "completed" && (asks?.requires.length ?? 0) > 0)
      add("a job that requires a capability was completed");
    for (const { key, scope, held, cap } of taken) {
      if (held === cap && [...waiting.values()].some((keys) => keys.has(key))) add(waitAt(key));
      // More was held once the claim before this one was made.
      if (cap < (last.get(scope) ?? 0)) add("a cap was lowered below what had been held");
      last.set(scope, held);
    }
  }
}

/** By the store's clock, of what was told of the submit. */
function countFirings(ledger: Ledger, add: (what: Sometimes) => void): void {
  for (const [id, [spec]] of ledger.specs) {
    const tick = spec === undefined ? null : (firingOf(spec)?.tick ?? null);
    const submitted = ledger.timelines.get(id)?.find(({ kind }) => kind === "submitted");
    if (tick === null || submitted === undefined) continue;
    add("the tick of a schedule made a job");
    if (submitted.at - tick > 1000) add("the tick of a schedule made a job more than a second late");
  }
}

function waitAt(key: string): Sometimes {
  if (isGroupGate(key)) return "a job waited for its group";
  return isKeyedGate(key) ? "a job waited at a full key of a limit" : "a job waited at a full limit";
}

function countPut(
  { key, cap, rate, perKey }: GatePut,
  version: number,
  add: (what: Sometimes) => void,
): void {
  if (isKeyedGate(key) && (cap !== null || rate !== null)) add("the bounds of one key were edited");
  if (perKey !== null && version > 1) add("the bounds of each key of a limit were edited");
}

function countLanes(ledger: Ledger, add: (what: Sometimes) => void): void {
  const [ready, retrying] = [new Map<string, Lane>(), new Map<string, Lane>()];
  const failed = new Set<string>();
  const has = (jobs: ReadonlyMap<string, Lane>, { key }: Lane): boolean =>
    [...jobs.values()].some((other) => other.key === key);
  for (const event of ledger.evidence.snapshot.feed.flatMap(({ events }) => events)) {
    const { id, kind, state, route } = event;
    const lane = ledger.lanes.get(id);
    if (lane === undefined) continue;
    ready.delete(id);
    retrying.delete(id);
    const isCapped = lane.uses.some(({ key }) => isGroupGate(key));
    if (kind === "replayed" && failed.has(id)) add("a failed job that held its group was replayed");
    failed.delete(id);
    if (holdsFailed(lane, event)) failed.add(id);
    if (keepsGroup(lane, event, false) && isCapped && has(ready, lane))
      add(
        kind === "failed"
          ? "a failed job held its group while another of it was ready"
          : "a retry held its group while another of it was ready",
      );
    if (kind === "claimed" && isCapped && has(retrying, lane)) add("a retry let its group go on");
    const asks = ledger.routes.get(route);
    if (kind === "claimed" && asks?.lanes === "turn") add("a group that takes turns had its turn");
    if (kind === "throttled" && state === "ready" && asks?.gates.length === 0)
      add("a job was throttled and waited at its key");
    if (state === "ready") ready.set(id, lane);
    if (kind === "retry-scheduled" && state === "scheduled" && !lane.holdsOnRetry) retrying.set(id, lane);
  }
}

function countEvents(evidence: Evidence, add: (what: Sometimes) => void): void {
  const askedToCancel = new Set<string>();
  const revoked = new Set<string>();
  const throttled = new Set<string>();
  for (const { events } of evidence.snapshot.feed) {
    for (const { kind, id, extra, state } of events) {
      if (kind === "freed") add("a member of a flow was freed");
      if (kind === "skipped") add("a member of a flow was skipped");
      if (kind === "replayed" && state === "blocked") add("a member of a flow came back and waited again");
      if (kind === "passed-on") add("an end went along more edges in a later step");
      if (kind === "revoked") {
        add("a lease was revoked");
        revoked.add(id);
      }
      if (kind === "throttled") throttled.add(id);
      if (kind === "completed" && throttled.has(id)) add("a throttled job was completed later");
      if (kind === "reclaimed") add("a lease expired and was reclaimed");
      if (kind === "completed" && revoked.has(id))
        add("a job whose lease was revoked was completed by the next worker");
      if (kind === "handed-back") add("a job was handed back by a worker that stopped");
      if (kind === "snoozed") add("an attempt was given back by a snooze");
      if (kind === "expired") add("a job met its deadline or its time-to-live");
      if (kind === "replayed") add("a finished job was replayed");
      if (kind === "cancel-asked") askedToCancel.add(id);
      if (kind === "cancelled" && askedToCancel.has(id)) add("a running job was cancelled");
      if (kind === "failed" && extra === "retries-exhausted")
        add("a job was dead-lettered because its attempts were used up");
      if (kind === "failed" && extra === "crash-loop")
        add("a job was dead-lettered because it kept killing its workers");
    }
  }
}
