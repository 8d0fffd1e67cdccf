/** Durable runs: invariants 59, 61, 63, 64, 66 and 68. What entries mean is read from their bodies. */
import { hasMark, roundOf } from "../../../src/model/durable/durable-marks.ts";
import { readEntry } from "../../../src/model/durable/entry-text.ts";
import type { EntryBody } from "../../../src/model/durable/journal-entry.ts";
import { readMeta } from "../../../src/model/job/job-meta.ts";
import { isTerminal } from "../../../src/model/job/job-state.ts";
import type { Suspend } from "../../../src/model/job/change.ts";
import type { Entry, EntryPut } from "../../../src/store/records.ts";
import { calmSince, promptMs } from "../calm.ts";
import type { TokenAnswer } from "../history.ts";
import { pushTo } from "../ledger.ts";
import type { Ledger, TimelineEvent, Violation } from "../ledger.ts";

export function* checkDurableRuns(ledger: Ledger): Generator<Violation> {
  yield* recordedStepsDoNotRun(ledger);
  yield* signalsAreReadOnce(ledger);
  yield* wakesAreInTime(ledger);
  yield* childrenEndWithTheirRuns(ledger);
  yield* tokensAnswerOnce(ledger);
  yield* stepsAreUndone(ledger);
}

const bodyOf = ({ key, body }: Pick<EntryPut, "key" | "body">): EntryBody =>
  readEntry({ number: 0, at: 0, key, body }).body;

function* recordedStepsDoNotRun({ evidence, journalActs, leases }: Ledger): Generator<Violation> {
  const { steps = [] } = evidence;
  if (steps.length === 0) return;
  const rounds = new Map(leases.map(({ id, fence, durable }) => [`${id}#${fence}`, roundOf(durable)]));
  /** When the result of a call was acknowledged, and to whom. */
  const known = new Map<string, { readonly fence: number; readonly sinceUs: number }>();
  for (const { id, fence, entries, how, call } of journalActs) {
    if (how !== "applied" || fence === null || call.seen !== "ok" || call.answeredUs === null) continue;
    for (const body of entries.map(bodyOf)) {
      if (body.kind !== "result") continue;
      const key = `${id} ${rounds.get(`${id}#${fence}`)} ${body.call}`;
      if (call.answeredUs < (known.get(key)?.sinceUs ?? Infinity))
        known.set(key, { fence, sinceUs: call.answeredUs });
    }
  }
  for (const { id, fence, round, call, atUs } of steps) {
    const result = known.get(`${id} ${round} ${call}`);
    // A worker that has not heard yet that its lease was revoked has read an older journal, and can record nothing.
    if (result !== undefined && fence >= result.fence && atUs > result.sinceUs)
      yield { invariant: 59, id, message: `${call} of ${id} runs again after its result was acknowledged` };
  }
}

/** The numbers of the signals that an entry takes. */
function takenBy(body: EntryBody): readonly number[] {
  if (body.kind === "arrived" || body.kind === "refused") return [body.signal];
  return body.kind === "decided" ? body.signals : [];
}

function* signalsAreReadOnce({ journals }: Ledger): Generator<Violation> {
  for (const [id, entries] of journals) {
    const taken = entries.flatMap((entry) => takenBy(bodyOf(entry)));
    for (const number of new Set(taken.filter((each, at) => taken.indexOf(each) !== at)))
      yield { invariant: 61, id, message: `two waits of ${id} have taken the signal ${number}` };
  }
}

interface Wait {
  readonly since: TimelineEvent;
  /** By the store's clock; null for never. */
  readonly wakesAt: number | null;
  readonly end: TimelineEvent | undefined;
}

function* wakesAreInTime(ledger: Ledger): Generator<Violation> {
  const { evidence, journalActs, timelines } = ledger;
  const { now } = evidence.snapshot;
  const lateMs = promptMs + (evidence.slackMs ?? 0);
  const calm = calmSince(evidence);
  const woken = new Set<string>();
  for (const { id, answer, call, index } of journalActs) {
    if (answer?.from !== "suspended" || call.kind !== "changeIf") continue;
    if (call.request[index]?.cases[answer.applied]?.guard.rang === "wake") woken.add(`${id}#${answer.rev}`);
  }
  for (const [id, events] of timelines) {
    for (const { wakesAt, end } of waitsOf(ledger, id, events)) {
      const isWoken = end !== undefined && woken.has(`${id}#${end.rev}`);
      if (isWoken && (wakesAt === null || end.at < wakesAt))
        yield { invariant: 63, id, message: `${id} was woken at ${end.at}, before its time ${wakesAt}` };
      const until = end === undefined ? now : isWoken ? end.at : null;
      if (wakesAt === null || until === null || calm === null || wakesAt <= calm) continue;
      if (until - wakesAt > lateMs)
        yield {
          invariant: 63,
          id,
          message: `${id} should have woken at ${wakesAt}, and slept until ${until}`,
        };
    }
  }
}

function waitsOf(ledger: Ledger, id: string, events: readonly TimelineEvent[]): Wait[] {
  const waits: Wait[] = [];
  let fence: number | undefined;
  for (const [at, event] of events.entries()) {
    if (event.kind === "claimed") fence = ledger.leaseOf(id, event)?.fence;
    if (event.state !== "suspended" || event.kind !== "suspended" || fence === undefined) continue;
    const act = ledger.journalActs.find(
      (each) => each.id === id && each.fence === fence && each.next?.to === "suspended",
    );
    if (act === undefined) continue;
    const { wake } = act.next as Suspend;
    const wakesAt = wake === null ? null : "at" in wake ? wake.at : event.at + wake.inMs;
    waits.push({
      since: event,
      wakesAt,
      end: events.slice(at + 1).find(({ state }) => state !== "suspended"),
    });
  }
  return waits;
}

const childrenMs = 5000;

/** Of flows that a run has invoked: their members follow them (45). */
function* childrenEndWithTheirRuns(ledger: Ledger): Generator<Violation> {
  const { evidence, specs, timelines } = ledger;
  const calm = calmSince(evidence);
  if (calm === null) return;
  const endOf = (id: string): number | null => {
    const last = timelines.get(id)?.findLast(({ kind }) => kind !== "edited" && kind !== "passed-on");
    const isOver = last !== undefined && (last.state === null || isTerminal(last.state));
    return isOver ? last.at : null;
  };
  for (const [id, [spec]] of specs) {
    const by = readMeta(spec?.meta ?? null).flow?.invokedBy;
    if (by === undefined || !timelines.has(id)) continue;
    const [runEndsAt, endsAt] = [endOf(by.run), endOf(id) ?? evidence.snapshot.now];
    if (runEndsAt === null || runEndsAt <= calm) continue;
    if (endsAt - runEndsAt > childrenMs + (evidence.slackMs ?? 0))
      yield { invariant: 64, id, message: `${id} lived ${endsAt - runEndsAt} ms longer than ${by.run}` };
  }
}

function* tokensAnswerOnce({ evidence, journals }: Ledger): Generator<Violation> {
  const accepted = new Map<string, TokenAnswer[]>();
  for (const operation of evidence.operations)
    if (operation.kind === "token-answer" && operation.said === "accepted")
      pushTo(accepted, JSON.stringify([operation.run, operation.round, operation.key]), operation);
  for (const answers of accepted.values()) {
    const [{ run, key }] = answers as [TokenAnswer];
    if (answers.length > 1)
      yield { invariant: 66, id: run, message: `${key} of ${run} was accepted ${answers.length} times` };
    const entry = journals.get(run)?.find((each) => each.key === key);
    if (entry === undefined) continue;
    for (const answer of answers) {
      const { expiresAt, keyEndsAt, invokedUs, answeredUs } = answer;
      const spanMs = ((answeredUs ?? invokedUs) - invokedUs) / 1000 + (evidence.slackMs ?? 0);
      // The token is checked when the call begins.
      const { invokedAt = entry.at - spanMs } = answer;
      if (invokedAt >= expiresAt)
        yield { invariant: 66, id: run, message: `${key} of ${run} was accepted after it had expired` };
      if (keyEndsAt !== null && invokedAt >= keyEndsAt)
        yield { invariant: 66, id: run, message: `${key} of ${run} was accepted under a retired key` };
    }
  }
}

function* stepsAreUndone({ records, journals }: Ledger): Generator<Violation> {
  for (const { id, state, reason, durable } of records.values()) {
    const entries = journals.get(id);
    if (entries === undefined || !isTerminal(state)) continue;
    const recorded = callsOf(entries, (body) => body.kind === "result" && body.hasUndo === true);
    const undone = callsOf(entries, ({ kind }) => kind === "undone");
    const givenUp = callsOf(entries, (body) => body.kind === "stuck" && body.retryInMs === null);
    const wanted = recorded.toReversed().filter((call) => undone.includes(call));
    if (undone.join("\n") !== wanted.join("\n"))
      yield { invariant: 68, id, message: `${id} undid ${undone.join(", ")} of ${recorded.join(", ")}` };
    const endsBadly = state !== "completed" && reason !== "diverged";
    if (!endsBadly && undone.length > 0)
      yield { invariant: 68, id, message: `${id} ended as ${state}, and has undone ${undone.join(", ")}` };
    const missing = recorded.filter((call) => !undone.includes(call) && !givenUp.includes(call));
    // Its attempts were used up by its undos.
    if (reason === "undo-failed") continue;
    if (endsBadly && hasMark(durable, "hasUndo") && missing.length > 0)
      yield {
        invariant: 68,
        id,
        message: `${id} ended as ${state}, and has not undone ${missing.join(", ")}`,
      };
  }
}

function callsOf(entries: readonly Entry[], isWanted: (body: EntryBody) => boolean): readonly string[] {
  return entries.map(bodyOf).flatMap((body) => ("call" in body && isWanted(body) ? [body.call] : []));
}
