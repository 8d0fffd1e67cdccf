/**
 * Settle (runs/settle.sql.ts). Plain settles are sent as one list per field, in runs that end alike. If a lease is
 * named twice, new runs begin, so that the second settle finds the result of the first.
 */
import type { Finish } from "../../../model/job/change.ts";
import { eventCodes } from "../../../model/events/event-kind.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import type { OrLocked, Settle, SettleAnswer } from "../../../store/operations.ts";
import { emptyHints, hintDoc, hintDue } from "../../../store/watch/hints.ts";
import type { Hints } from "../../../store/watch/hints.ts";
import { hintEvents } from "../../../store/packing/packed-events.ts";
import { choosePath } from "../../../store/paths.ts";
import { areAlike, isGrowth, isOfFlow } from "../../../store/path-predicates.ts";
import type { NewJob } from "../../../store/records.ts";
import { callScalar, patiently } from "../functions/call.ts";
import type { Calls } from "../functions/call.ts";
import { postgresPaths } from "../paths.ts";
import { RouteList } from "../jobs/routes.ts";
import {
  briefNumberList,
  numberList,
  packNullable,
  packText,
  packedList,
  readNumbers,
  sparseNumberList,
  splitEvents,
  unpackText,
} from "../functions/packed-values.ts";
import { entryOf } from "../journal/packed-entry.ts";
import { nextOf, unitOf } from "../jobs/packed-unit.ts";

const ok: SettleAnswer = { kind: "ok" };

export async function settleIfLeased(
  calls: Calls,
  settles: readonly Settle[],
): Promise<OrLocked<SettleAnswer>[]> {
  return patiently((isCareful) =>
    settleBy(calls, settles, isCareful ? settles.map(() => false) : settles.map(isOfSet), isCareful),
  );
}

const isOfSet = (settle: Settle): boolean => choosePath(postgresPaths.settle, settle) === "set";

export async function settleBy(
  calls: Calls,
  settles: readonly Settle[],
  arePlain: readonly boolean[],
  isCareful = false,
): Promise<OrLocked<SettleAnswer>[]> {
  if (settles.length === 0) return [];
  const { steps, plain, singles, endings, areDurable } = inRuns(settles, arePlain);
  const routes = new RouteList();
  const options = { isCareful, isInside: calls.isInside };
  const packed = singles.map((index) => singleOf(settles[index] as Settle, routes, options));
  const answer = await callScalar(calls, "settle_v1", {
    p_inside: calls.isInside,
    p_steps: numberList(steps),
    ...routes.values(),
    ...plainLists(
      plain.map((index) => settles[index] as PlainSettle),
      endings,
    ),
    p_durables: areDurable.includes(true) ? `{${areDurable.join(",")}}` : null,
    // The lists are in the order of the runs; ends of members arrive in the order of the call.
    p_places: isSorted(plain) ? null : numberList(plain),
    p_singles: packed.length === 0 ? null : JSON.stringify(packed),
  });
  const [now, refused = "", answered = "", ready = "", defers = "", events = ""] = splitEvents(answer, 5);
  /** Position of a plain settle -> why it was not applied. */
  const refusals = JSON.parse(refused || "{}") as Readonly<Record<string, SettleAnswer["kind"]>>;
  const ofSingles = JSON.parse(answered || "[]") as OrLocked<SettleAnswer>[];
  const answers: OrLocked<SettleAnswer>[] = settles.map(() => ok);
  const hints = emptyHints();
  for (let at = 0; at < plain.length; at++) {
    const index = plain[at] as number;
    const kind = refused === "" ? undefined : refusals[at];
    if (kind === undefined) hints.finished.push((settles[index] as Settle).id);
    else answers[index] = { kind } as SettleAnswer;
  }
  for (const [at, index] of singles.entries()) {
    const single = unpackAnswer(ofSingles[at] as OrLocked<SettleAnswer>);
    answers[index] = single;
    if (single.kind === "ok") hintWake(hints, settles[index] as Settle, Number(now));
  }
  for (const route of readNumbers(ready)) hints.routes.add(route);
  if (defers === "1") hintDoc(hints, 0);
  hintEvents(hints, events, Number(now));
  calls.emit(hints);
  return answers;
}

/** The time of a suspended run is in no event. */
function hintWake(hints: Hints, { next }: Settle, now: number): void {
  if (next.to !== "suspended" || next.wake === null) return;
  hintDue(hints, "inMs" in next.wake ? next.wake.inMs : next.wake.at - now);
}

function isSorted(indexes: readonly number[]): boolean {
  return indexes.every((index, at) => at === 0 || (indexes[at - 1] as number) < index);
}

function unpackAnswer(answer: OrLocked<SettleAnswer>): OrLocked<SettleAnswer> {
  return "id" in answer ? { ...answer, id: unpackText(answer.id) } : answer;
}

type PlainSettle = Settle & { readonly next: Finish };

interface Runs {
  /** How many plain settles each run has; 0 stands for one settle of the general path. */
  readonly steps: readonly number[];
  /** Indexes into the call, run by run. */
  readonly plain: readonly number[];
  readonly singles: readonly number[];
  /** The ending of each run. */
  readonly endings: readonly Finish[];
  /** Whether the jobs of each run are durable runs. */
  readonly areDurable: readonly boolean[];
}

/** Divides adjacent plain settles into runs by their ending; usually that makes one run. */
function inRuns(settles: readonly Settle[], arePlain: readonly boolean[]): Runs {
  const steps: number[] = [];
  const plain: number[] = [];
  const singles: number[] = [];
  const endings: Finish[] = [];
  const areDurable: boolean[] = [];
  let open: { readonly ending: Finish; readonly isDurable: boolean; readonly indexes: number[] }[] = [];
  let named = new Set<string>();
  const closeRuns = (): void => {
    for (const { ending, isDurable, indexes } of open) {
      steps.push(indexes.length);
      plain.push(...indexes);
      endings.push(ending);
      areDurable.push(isDurable);
    }
    open = [];
    named = new Set();
  };
  for (let index = 0; index < settles.length; index++) {
    const { id, next, journal } = settles[index] as Settle;
    if (arePlain[index] !== true) {
      closeRuns();
      steps.push(0);
      singles.push(index);
      continue;
    }
    if (named.has(id)) closeRuns();
    named.add(id);
    const ending = next as Finish;
    const isDurable = journal !== undefined;
    const run = open.find((each) => each.isDurable === isDurable && areAlike(each.ending, ending));
    if (run === undefined) open.push({ ending, isDurable, indexes: [index] });
    else run.indexes.push(index);
  }
  closeRuns();
  return { steps, plain, singles, endings, areDurable };
}

/** By the names of settle_v1's parameters. */
function plainLists(
  settles: readonly PlainSettle[],
  endings: readonly Finish[],
): Record<string, string | null> {
  return {
    p_ids: packedList(settles.map(({ id }) => id)),
    p_seqs: sparseNumberList(settles.map(({ seq }) => seq)),
    p_fences: briefNumberList(settles.map(({ fence }) => fence)),
    p_states: sparseNumberList(endings.map(({ to }) => stateCodes[to])),
    p_kinds: sparseNumberList(endings.map(({ event }) => eventCodes[event])),
    p_keeps: sparseNumberList(endings.map(({ keepMs }) => keepMs)),
    p_reasons: packedList(endings.map(({ reason }) => reason)),
    p_results: packedList(settles.map(({ next }) => next.result)),
    p_logs: packedList(settles.map(({ attempts }) => attempts)),
  };
}

interface SingleOptions {
  readonly isCareful: boolean;
  readonly isInside: boolean;
}

function singleOf(settle: Settle, routes: RouteList, { isCareful, isInside }: SingleOptions): object {
  const { id, seq, fence, next, journal, attempts, effects } = settle;
  const { jobs = [], docs = [], ...growth } = effects ?? {};
  // The end of the job is written before its effects, so a refusal of the effects needs a savepoint.
  const isLate = isCareful || docs.length > 0 || isGrowth(growth) || jobs.some(mayBeRefused);
  return {
    ...{ id: packText(id), seq, fence, next: nextOf(next), attempts: packNullable(attempts) },
    ...{ isLate, isInside },
    journal: journal && { seen: journal.seen, entries: journal.entries.map(entryOf) },
    effects: effects && unitOf({ jobs, docs, ...growth, isRepeat: false, isLate, isInside }, routes),
  };
}

const mayBeRefused = (job: NewJob): boolean => job.digest !== null || (isOfFlow(job) && job.unique !== null);
