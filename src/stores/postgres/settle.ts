/**
 * Settle (sql/settle.ts). Endings without effects travel as one list per column; a lease that is named twice starts a new run, so that the second
 * meets what the first has written.
 */
import type { Finish } from "../../model/change.ts";
import { eventCodes } from "../../model/event-kind.ts";
import { stateCodes } from "../../model/job-state.ts";
import type { Settle, SettleAnswer } from "../../store/operations.ts";
import { emptyHints } from "../../store/hints.ts";
import { hintEvents } from "../../store/packed-events.ts";
import { isPlainSettle } from "../../store/plain.ts";
import { callScalar } from "./call.ts";
import type { Calls } from "./call.ts";
import { RouteList } from "./routes.ts";
import { numberList, packNullable, packText, sparseNumberList, sparseTextList, unpackText } from "./text.ts";
import { nextOf, unitOf } from "./unit.ts";

const ok: SettleAnswer = { kind: "ok" };

interface RawAnswer {
  readonly now: number;
  /** Position of a plain settle -> why it was not applied. */
  readonly refused: Readonly<Record<string, SettleAnswer["kind"]>> | null;
  readonly answers: readonly SettleAnswer[];
  readonly events: string | null;
}

export async function settleIfLeased(calls: Calls, settles: readonly Settle[]): Promise<SettleAnswer[]> {
  return settleBy(calls, settles, settles.map(isPlainSettle));
}

/** `arePlain`: which settles take the plain road. */
export async function settleBy(
  calls: Calls,
  settles: readonly Settle[],
  arePlain: readonly boolean[],
): Promise<SettleAnswer[]> {
  if (settles.length === 0) return [];
  const { steps, plain, singles } = inRuns(settles, arePlain);
  const routes = new RouteList();
  const packed = singles.map((index) => singleOf(settles[index] as Settle, routes));
  const values = {
    p_inside: calls.isInside,
    p_steps: numberList(steps),
    ...routes.values(),
    ...plainLists(plain.map((index) => settles[index] as PlainSettle)),
    p_singles: packed.length === 0 ? null : JSON.stringify(packed),
  };
  const answer = JSON.parse(await callScalar(calls, "settle_v1", values)) as RawAnswer;
  const answers: SettleAnswer[] = settles.map(() => ok);
  const hints = emptyHints();
  for (const [at, index] of plain.entries()) {
    const kind = answer.refused?.[at];
    if (kind === undefined) hints.finished.push((settles[index] as Settle).id);
    else answers[index] = { kind } as SettleAnswer;
  }
  for (const [at, index] of singles.entries())
    answers[index] = unpackAnswer(answer.answers[at] as SettleAnswer);
  hintEvents(hints, answer.events ?? "", answer.now);
  calls.tell(hints);
  return answers;
}

function unpackAnswer(answer: SettleAnswer): SettleAnswer {
  return "id" in answer ? { ...answer, id: unpackText(answer.id) } : answer;
}

/** Indexes into the call, in the order of the steps. */
function inRuns(
  settles: readonly Settle[],
  arePlain: readonly boolean[],
): { steps: number[]; plain: number[]; singles: number[] } {
  const steps: number[] = [];
  const plain: number[] = [];
  const singles: number[] = [];
  let run: number[] = [];
  let named = new Set<string>();
  const endRun = (): void => {
    if (run.length === 0) return;
    steps.push(run.length);
    plain.push(...run);
    run = [];
    named = new Set();
  };
  for (const [index, { id }] of settles.entries()) {
    if (arePlain[index] === true) {
      if (named.has(id)) endRun();
      named.add(id);
      run.push(index);
      continue;
    }
    endRun();
    steps.push(0);
    singles.push(index);
  }
  endRun();
  return { steps, plain, singles };
}

type PlainSettle = Settle & { readonly next: Finish };

/** By the names of settle_v1's parameters. Most often all jobs end alike; each ending that differs is sent once. */
function plainLists(settles: readonly PlainSettle[]): Record<string, string | null> {
  const endings: Finish[] = [];
  const places = settles.map(({ next }) => {
    const known = endings.findIndex((ending) => areAlike(ending, next));
    return known === -1 ? endings.push(next) : known + 1;
  });
  return {
    p_ids: sparseTextList(settles.map(({ id }) => packText(id))),
    p_seqs: sparseNumberList(settles.map(({ seq }) => seq)),
    p_fences: sparseNumberList(settles.map(({ fence }) => fence)),
    p_ending: endings.length > 1 ? sparseNumberList(places) : null,
    p_states: sparseNumberList(endings.map(({ to }) => stateCodes[to])),
    p_kinds: sparseNumberList(endings.map(({ event }) => eventCodes[event])),
    p_keeps: sparseNumberList(endings.map(({ keepMs }) => keepMs)),
    p_reasons: sparseTextList(endings.map(({ reason }) => packNullable(reason))),
    p_results: sparseTextList(settles.map(({ next }) => packNullable(next.result))),
    p_logs: sparseTextList(settles.map(({ attempts }) => packNullable(attempts))),
  };
}

/** But for the result, which is each job's own. */
function areAlike(one: Finish, other: Finish): boolean {
  return (
    one.to === other.to &&
    one.event === other.event &&
    one.keepMs === other.keepMs &&
    one.reason === other.reason
  );
}

function singleOf({ id, seq, fence, next, attempts, effects }: Settle, routes: RouteList): object {
  const single = { id: packText(id), seq, fence, next: nextOf(next), attempts: packNullable(attempts) };
  if (effects === undefined) return single;
  const { jobs = [], docs = [] } = effects;
  // The end of the job is written before its effects.
  const isLate = docs.length > 0 || jobs.some(({ digest }) => digest !== null);
  return { ...single, effects: unitOf({ jobs, docs, isRepeat: false, isLate }, routes) };
}
