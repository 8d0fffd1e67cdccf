/**
 * Settle (sql/settle.ts). Endings without effects travel as one list per column; a lease that is named twice starts a new run, so that the second
 * meets what the first has written.
 */
import { eventCodes } from "../../model/event-kind.ts";
import { isTerminal, stateCodes } from "../../model/job-state.ts";
import type { JobState } from "../../model/job-state.ts";
import type { Finish } from "../../model/change.ts";
import type { Settle, SettleAnswer } from "../../store/operations.ts";
import { emptyHints } from "../../store/hints.ts";
import { hintEvents } from "../../store/packed-events.ts";
import { callWrite, onlyRow } from "./call.ts";
import type { Calls } from "./call.ts";
import {
  numberList,
  packNullable,
  packText,
  sparseNumberList,
  sparseTextList,
  textList,
  unpackText,
} from "./text.ts";
import { nextOf, unitOf } from "./unit.ts";

const ok: SettleAnswer = { kind: "ok" };

export async function settleIfLeased(calls: Calls, settles: readonly Settle[]): Promise<SettleAnswer[]> {
  if (settles.length === 0) return [];
  const { steps, plain, singles } = inRuns(settles);
  const ends = plain.map((index) => settles[index] as Settle & { readonly next: Finish });
  const values = [
    calls.isInside,
    numberList(steps),
    ...(ends.length === 0 ? Array.from({ length: 9 }, () => null) : plainValues(ends)),
    singles.length === 0 ? null : JSON.stringify(singles.map((index) => singleOf(settles[index] as Settle))),
  ];
  const [now, refusedText, answered, events] = onlyRow(await callWrite(calls, "settle_v1", values));
  const answers: SettleAnswer[] = settles.map(() => ok);
  const refused =
    refusedText === null ? null : (JSON.parse(refusedText as string) as Record<string, SettleAnswer["kind"]>);
  const hints = emptyHints();
  for (const [at, index] of plain.entries()) {
    const kind = refused?.[at];
    if (kind === undefined) hints.finished.push((settles[index] as Settle).id);
    else answers[index] = { kind } as SettleAnswer;
  }
  const single = JSON.parse(answered ?? "[]") as SettleAnswer[];
  for (const [at, index] of singles.entries()) answers[index] = unpackAnswer(single[at] as SettleAnswer);
  hintEvents(hints, events ?? "", Number(now));
  calls.tell(hints);
  return answers;
}

function unpackAnswer(answer: SettleAnswer): SettleAnswer {
  return "id" in answer ? { ...answer, id: unpackText(answer.id) } : answer;
}

/** Indexes into the call, in the order of the steps. */
function inRuns(settles: readonly Settle[]): { steps: number[]; plain: number[]; singles: number[] } {
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
  for (const [index, { id, next, effects }] of settles.entries()) {
    if (effects === undefined && isTerminal(next.to as JobState)) {
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

function plainValues(ends: readonly (Settle & { readonly next: Finish })[]): (string | null)[] {
  const [{ next: first }] = ends as [(typeof ends)[number]];
  const areAlike = ends.every(
    ({ next }) =>
      next.to === first.to &&
      next.event === first.event &&
      next.keepMs === first.keepMs &&
      next.reason === first.reason,
  );
  const nexts = areAlike ? [first] : ends.map(({ next }) => next);
  return [
    textList(ends.map(({ id }) => packText(id))),
    numberList(ends.map(({ seq }) => seq)),
    numberList(ends.map(({ fence }) => fence)),
    numberList(nexts.map(({ to }) => stateCodes[to])),
    numberList(nexts.map(({ event }) => eventCodes[event])),
    sparseNumberList(nexts.map(({ keepMs }) => keepMs)),
    sparseTextList(nexts.map(({ reason }) => packNullable(reason))),
    sparseTextList(ends.map(({ next }) => packNullable(next.result))),
    sparseTextList(ends.map(({ attempts }) => packNullable(attempts))),
  ];
}

function singleOf({ id, seq, fence, next, attempts, effects }: Settle): object {
  const single = { id: packText(id), seq, fence, next: nextOf(next), attempts: packNullable(attempts) };
  if (effects === undefined) return single;
  const { jobs = [], docs = [] } = effects;
  return { ...single, effects: unitOf({ jobs, docs, isRepeat: false, isEffect: true }) };
}
