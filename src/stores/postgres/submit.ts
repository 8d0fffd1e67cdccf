/**
 * Submit: the first step of a job's life (sql/submit.ts). Units of plain jobs travel as one list per column; the others as JSON.
 */
import type { SubmitAnswer, SubmitHow, SubmitUnit } from "../../store/operations.ts";
import type { NewJob } from "../../store/records.ts";
import { emptyHints, hintDue } from "../../store/hints.ts";
import { hintEvents } from "../../store/packed-events.ts";
import { callWrite, onlyRow } from "./call.ts";
import type { Calls } from "./call.ts";
import {
  numberList,
  packNullable,
  packText,
  readNumbers,
  sparseNumberList,
  sparseTextList,
  textList,
  unpackText,
} from "./text.ts";
import { at, inMs, submitOne } from "./submit-one.ts";
import { tagsText, unitOf } from "./unit.ts";

const inlineMax = 1024;

export async function submit(calls: Calls, units: readonly SubmitUnit[]): Promise<SubmitAnswer[]> {
  if (units.length === 0) return [];
  const single = calls.isInside ? null : singleOf(units);
  if (single !== null) return [await submitOne(calls, single)];
  const steps: number[] = [];
  const plain: NewJob[] = [];
  const keyed: object[] = [];
  for (const unit of units) {
    if (isPlain(unit)) {
      plain.push(...unit.jobs);
      if (unit.jobs.length === 0) continue;
      if ((steps.at(-1) ?? 0) > 0) steps.push((steps.pop() as number) + unit.jobs.length);
      else steps.push(unit.jobs.length);
      continue;
    }
    steps.push(0);
    const { jobs, docs = [], isRepeat = false } = unit;
    keyed.push(unitOf({ jobs, docs, isRepeat, isEffect: false }));
  }
  if (steps.length === 0) return units.map(() => ({ kind: "ok", ids: [], hows: [] }));
  const values = [
    calls.isInside,
    numberList(steps),
    ...plainValues(plain),
    keyed.length === 0 ? null : JSON.stringify(keyed),
  ];
  const [now, answered, events, ready, timerAt] = onlyRow(await callWrite(calls, "submit_v1", values));
  const hints = emptyHints();
  for (const route of readNumbers(ready ?? null)) hints.routes.add(route);
  if (timerAt !== null) hintDue(hints, Number(timerAt) - Number(now));
  hintEvents(hints, events ?? "", Number(now));
  calls.tell(hints);
  const answers = JSON.parse(answered ?? "[]") as SubmitAnswer[];
  let next = 0;
  return units.map((unit) => (isPlain(unit) ? created(unit) : unpackAnswer(answers[next++] as SubmitAnswer)));
}

/** The only job of a call that the short path can take. */
function singleOf(units: readonly SubmitUnit[]): NewJob | null {
  const [unit] = units;
  if (units.length !== 1 || unit === undefined || unit.jobs.length !== 1 || !isPlain(unit)) return null;
  const job = unit.jobs[0] as NewJob;
  const hasTags = job.tags !== null && job.tags.length > 0;
  return hasTags || packText(job.input).length > inlineMax ? null : job;
}

function isPlain({ jobs, docs, isRepeat }: SubmitUnit): boolean {
  if (isRepeat === true || (docs !== undefined && docs.length > 0)) return false;
  return jobs.every((job) => job.digest === null && job.unique === null);
}

function created({ jobs }: SubmitUnit): SubmitAnswer {
  return { kind: "ok", ids: jobs.map(({ id }) => id), hows: jobs.map((): SubmitHow => "created") };
}

function unpackAnswer(answer: SubmitAnswer): SubmitAnswer {
  if (answer.kind === "refused") return { ...answer, id: unpackText(answer.id) };
  return { ...answer, ids: answer.ids.map(unpackText) };
}

function plainValues(jobs: readonly NewJob[]): (string | null)[] {
  const count = jobs.length;
  const routes = new Map<string, number>();
  const queues: string[] = [];
  const names: string[] = [];
  const routeOf: number[] = [];
  const ids: string[] = [];
  const inputs: (string | null)[] = [];
  const bigIds: string[] = [];
  const bigInputs: string[] = [];
  const tagIds: string[] = [];
  const tagNames: string[] = [];
  for (const job of jobs) {
    const key = `${job.queue.length}:${job.queue}${job.name}`;
    let route = routes.get(key);
    if (route === undefined) {
      route = queues.push(packText(job.queue));
      names.push(packText(job.name));
      routes.set(key, route);
    }
    routeOf.push(route);
    const id = packText(job.id);
    ids.push(id);
    const input = packText(job.input);
    if (input.length <= inlineMax) {
      inputs.push(input);
    } else {
      inputs.push(null);
      bigIds.push(id);
      bigInputs.push(input);
    }
    for (const tag of job.tags ?? []) {
      tagIds.push(id);
      tagNames.push(packText(tag));
    }
  }
  if (count === 0) return Array.from({ length: 19 }, () => null);
  return [
    textList(queues),
    textList(names),
    numberList(routeOf),
    textList(ids),
    textList(inputs),
    sparseTextList(jobs.map((job) => packNullable(job.policy))),
    sparseTextList(jobs.map((job) => packNullable(job.meta))),
    sparseTextList(jobs.map((job) => tagsText(job.tags))),
    sparseNumberList(
      jobs.map((job) => inMs(job.due) ?? 0),
      0,
    ),
    sparseNumberList(jobs.map((job) => at(job.due))),
    sparseNumberList(
      jobs.map((job) => job.rankBase),
      0,
    ),
    sparseNumberList(
      jobs.map((job) => job.rankSlope),
      1,
    ),
    sparseNumberList(jobs.map((job) => inMs(job.deadline))),
    sparseNumberList(jobs.map((job) => at(job.deadline))),
    sparseNumberList(jobs.map((job) => job.ttlMs)),
    bigIds.length === 0 ? null : textList(bigIds),
    bigIds.length === 0 ? null : textList(bigInputs),
    tagIds.length === 0 ? null : textList(tagIds),
    tagIds.length === 0 ? null : textList(tagNames),
  ];
}
