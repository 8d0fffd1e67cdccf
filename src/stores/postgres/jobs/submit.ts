/**
 * Submit: the first step of a job's life (jobs/submit.sql.ts). Units of plain jobs are sent as one list per field, the
 * others as JSON.
 */
import { columnOf } from "../../../store/job-fields.ts";
import type { JobFieldName } from "../../../store/job-fields.ts";
import type { OrLocked, SubmitAnswer, SubmitHow, SubmitUnit } from "../../../store/operations.ts";
import type { NewJob } from "../../../store/records.ts";
import { emptyHints, hintDue } from "../../../store/watch/hints.ts";
import { hintEvents } from "../../../store/packing/packed-events.ts";
import { choosePath } from "../../../store/paths.ts";
import { mayBeRefusedLate } from "../../../store/path-predicates.ts";
import { tagsOf } from "../../../store/rules/place.ts";
import { callScalar, patiently } from "../functions/call.ts";
import type { Calls } from "../functions/call.ts";
import { packValue, typeOf } from "../functions/columns.ts";
import type { FieldValue } from "../functions/columns.ts";
import { postgresPaths } from "../paths.ts";
import { RouteList } from "./routes.ts";
import { sharedFields } from "./submit.sql.ts";
import {
  numberList,
  packText,
  packedList,
  readNumbers,
  sparseNumberList,
  sparseTextList,
  splitEvents,
  unpackText,
} from "../functions/packed-values.ts";
import { placeParameters } from "./place-parameters.ts";
import { submitOne } from "./submit-one.ts";
import { checksOf, isLarge, unitOf } from "./packed-unit.ts";

export async function submit(calls: Calls, units: readonly SubmitUnit[]): Promise<OrLocked<SubmitAnswer>[]> {
  const isAlone = units.length === 1 && !calls.isInside;
  const paths = units.map((unit) => choosePath(postgresPaths.submit, unit, isAlone));
  if (paths[0] === "one job") return [await submitOne(calls, units[0]?.jobs[0] as NewJob)];
  const arePlain = paths.map((path) => path !== "general");
  return patiently((isCareful) =>
    // A check may wait for another call's put. Units with checks need a savepoint then, and the set path has none.
    submitBy(
      calls,
      units,
      isCareful ? arePlain.map((isSet, at) => isSet && !isChecked(units[at])) : arePlain,
      isCareful,
    ),
  );
}

function isChecked(unit: SubmitUnit | undefined): boolean {
  return unit?.checks !== undefined && unit.checks.length > 0;
}

/**
 * `arePlain`: which units take the set path. `isCareful`: each of the others gets a savepoint. `asksGates`: one of the
 * queues has a closed intake, so each job asks whether its own is. Then no unit takes the set path, which refuses
 * nothing.
 */
export async function submitBy(
  calls: Calls,
  units: readonly SubmitUnit[],
  arePlain: readonly boolean[],
  isCareful = false,
  asksGates = false,
): Promise<OrLocked<SubmitAnswer>[]> {
  const steps: number[] = [];
  const plain: NewJob[] = [];
  const others: object[] = [];
  const routes = new RouteList();
  for (let index = 0; index < units.length; index++) {
    const unit = units[index] as SubmitUnit;
    const { jobs } = unit;
    if (arePlain[index] !== true) {
      const { docs = [], checks, isRepeat = false, grows, links } = unit;
      const { isInside } = calls;
      steps.push(0);
      const isLate = isCareful || mayBeRefusedLate(unit) || (asksGates && jobs.length > 1);
      others.push(
        unitOf({ jobs, docs, checks, isRepeat, isLate, isInside, asksGates, grows, links }, routes),
      );
      continue;
    }
    for (const job of jobs) plain.push(job);
    if (isChecked(unit)) {
      steps.push(-jobs.length);
      others.push(checksOf(unit));
    } else if (jobs.length > 0) {
      const last = steps.length - 1;
      if ((steps[last] ?? 0) > 0) steps[last] = (steps[last] as number) + jobs.length;
      else steps.push(jobs.length);
    }
  }
  if (steps.length === 0) return units.map(created);
  const lists = plainLists(plain, routes);
  const answer = await callScalar(calls, "submit_v1", {
    p_inside: calls.isInside,
    p_asks: asksGates,
    p_steps: numberList(steps),
    ...routes.values(),
    ...lists,
    p_units: others.length === 0 ? null : JSON.stringify(others),
  });
  if (answer === "") {
    const none = units.map(() => false);
    return submitBy(calls, units, none, isCareful, true);
  }
  const [time, ready = "", timerAt = "", answered = "", events = ""] = splitEvents(answer, 4);
  const now = Number(time);
  const hints = emptyHints();
  for (const route of readNumbers(ready)) hints.routes.add(route);
  if (timerAt !== "") hintDue(hints, Number(timerAt) - now);
  hintEvents(hints, events, now);
  calls.emit(hints);
  const answers = JSON.parse(answered || "[]") as OrLocked<SubmitAnswer>[];
  let next = 0;
  return units.map((unit, index) => {
    if (arePlain[index] === true && !isChecked(unit)) return created(unit);
    const own = answers[next++] as OrLocked<SubmitAnswer>;
    return arePlain[index] === true && own.kind === "ok" ? created(unit) : unpackAnswer(own);
  });
}

const oneCreated: readonly SubmitHow[] = ["created"];

function created({ jobs }: SubmitUnit): SubmitAnswer {
  const [only] = jobs;
  if (jobs.length === 1 && only !== undefined) return { kind: "ok", ids: [only.id], hows: oneCreated };
  return { kind: "ok", ids: jobs.map(({ id }) => id), hows: jobs.map((): SubmitHow => "created") };
}

function unpackAnswer(answer: OrLocked<SubmitAnswer>): OrLocked<SubmitAnswer> {
  if (answer.kind === "refused") return { ...answer, id: unpackText(answer.id) };
  return answer.kind === "ok" ? { ...answer, ids: answer.ids.map(unpackText) } : answer;
}

/**
 * The lists of plain jobs, by the names of submit_v1's parameters. A list is null if all jobs have the usual value.
 * Members that are alike in their flow send their shared fields once.
 */
function plainLists(jobs: readonly NewJob[], routes: RouteList): Record<string, string | null> {
  const likes = jobs.some(({ waits }) => waits !== undefined && waits !== null) ? likesOf(jobs) : null;
  const emitted = likes === null ? jobs : likes.firsts;
  const large = placesOf(jobs, ({ input }) => (isLarge(input) ? [input] : null));
  // Each tag once, so that the insert need not look for conflicts: members of a flow have a tag each.
  const tags = placesOf(emitted, ({ tags: given }) => (given ? [...new Set(given)] : null));
  const places = jobs.map((job) => routes.add(job).place);
  const lists: Record<string, string | null> = {
    p_id: packedList(jobs.map(idOf)),
    p_input: packedList(jobs.map(smallInputOf)),
    p_route_at: routes.size > 1 ? sparseNumberList(places) : null,
    p_large_at: sparseNumberList(large.places),
    p_large: sparseTextList(large.texts),
    p_tag_at: sparseNumberList(tags.places),
    p_tag: sparseTextList(tags.texts),
    p_like: likes === null ? null : numberList(likes.places),
  };
  for (const name of sharedFields) lists[`p_${columnOf(name)}`] = listOf(emitted, name);
  for (const { name, of, usual } of placeParameters)
    lists[name] = jobs.some((job) => of(job) !== usual) ? numberList(jobs.map(of)) : null;
  return lists;
}

const idOf = ({ id }: NewJob): string => id;
const smallInputOf = ({ input }: NewJob): string | null => (isLarge(input) ? null : input);

/**
 * The first job of each run of jobs whose shared fields are equal, and for each job which of these it belongs to, from
 * 1 on.
 */
function likesOf(jobs: readonly NewJob[]): { places: readonly number[]; firsts: readonly NewJob[] } {
  const firsts: NewJob[] = [];
  let last: NewJob | null = null;
  const places = jobs.map((job) => {
    if (last === null || !areLike(last, job)) firsts.push((last = job));
    return firsts.length;
  });
  return { places, firsts };
}

/** Compares the fields without looking into lists: members that the engine has planned alike share the same lists. */
function areLike(one: NewJob, other: NewJob): boolean {
  const [first, second] = [one, other] as unknown as readonly Readonly<Record<string, unknown>>[];
  for (const name of sharedFields) if (first?.[name] !== second?.[name]) return false;
  return true;
}

/** A field that jobs give under its own name; null if none gives it. */
function listOf(jobs: readonly NewJob[], name: JobFieldName): string | null {
  if (!jobs.some((job) => gives(job, name))) return null;
  const given = jobs.map((job) => packValue(valueOf(job, name)));
  return typeOf(name) === "text"
    ? sparseTextList(given as (string | null)[])
    : sparseNumberList(given as (number | null)[]);
}

function gives(job: NewJob, name: JobFieldName): boolean {
  const value = (job as unknown as Readonly<Record<string, FieldValue | undefined>>)[name];
  return value !== undefined && value !== null;
}

function valueOf(job: NewJob, name: JobFieldName): FieldValue {
  if (name === "tags") return tagsOf(job);
  return (job as unknown as Readonly<Record<string, FieldValue | undefined>>)[name] ?? null;
}

/** Texts of which a few jobs have several and most have none, each with the place of its job, from 1 on. */
function placesOf(
  jobs: readonly NewJob[],
  textsOf: (job: NewJob) => readonly string[] | null,
): { places: number[]; texts: string[] } {
  const places: number[] = [];
  const texts: string[] = [];
  for (let index = 0; index < jobs.length; index++) {
    for (const text of textsOf(jobs[index] as NewJob) ?? []) {
      places.push(index + 1);
      texts.push(packText(text));
    }
  }
  return { places, texts };
}
