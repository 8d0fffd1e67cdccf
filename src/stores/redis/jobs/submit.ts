/**
 * Submit (submit.lua.ts). Plain jobs are sent as series, which have one answer together. Units that may be refused are
 * answered one by one. If the intake of a queue of plain jobs is closed, the call does nothing and is sent
 * again with an answer for each unit. Members of a flow that differ only in their ids and inputs are sent without the
 * rest of their bodies.
 */
import type { SubmitAnswer, SubmitHow, SubmitUnit } from "../../../store/operations.ts";
import { choosePath } from "../../../store/paths.ts";
import { isOfFlow } from "../../../store/path-predicates.ts";
import type { DocCheck, NewJob } from "../../../store/records.ts";
import { valueText } from "../packing/argument-text.ts";
import type { Calls, Operation } from "../connection/call.ts";
import { redisPaths } from "../paths.ts";
import {
  docField,
  hasSameLead,
  inputText,
  leadText,
  plainBodyText,
  pushUnit,
  Shapes,
} from "./submit-text.ts";
import { fieldEnd, packText, unpackText } from "../packing/value-text.ts";

/** Returned instead of the answers. */
const intakeClosed = "intake-closed";

export const submit: Operation<"submit"> = async (calls, units) => {
  const answers = await send(
    calls,
    units,
    units.map((unit) => choosePath(redisPaths.submit, unit) !== "general"),
  );
  return answers ?? ((await send(calls, units, [])) as SubmitAnswer[]);
};

async function send(
  { flush }: Calls,
  units: readonly SubmitUnit[],
  arePlain: readonly boolean[],
): Promise<SubmitAnswer[] | null> {
  const shapes = new Shapes();
  const steps: string[] = [];
  const series = new PlainSeries(steps);
  for (const [index, unit] of units.entries()) {
    if (arePlain[index] === true) {
      const checks = unit.checks ?? [];
      const behind = checks.length === 0 ? null : pushChecks(steps, series, checks);
      for (const job of unit.jobs) series.add(shapes.numberOf(job), job);
      if (behind === null) continue;
      series.end();
      steps[behind] = String(steps.length - behind - 1 - 2 * checks.length);
    } else {
      series.end();
      steps.push("0", valueText(unit.isRepeat === true));
      pushUnit(steps, shapes, unit);
    }
  }
  series.end();
  if (steps.length === 0) return units.map(created);
  const answers = (await flush.call("submit", [...shapes.args(), ...steps])) as
    | string[]
    | typeof intakeClosed;
  if (answers === intakeClosed) return null;
  let at = 0;
  return units.map((unit, index) => {
    if (arePlain[index] === true && !isChecked(unit)) return created(unit);
    const answer = answers[at++] as string;
    return arePlain[index] === true && answer === "ok" ? created(unit) : answerOf(answer);
  });
}

function isChecked({ checks }: SubmitUnit): boolean {
  return checks !== undefined && checks.length > 0;
}

/** @returns the index at which the number of the following arguments is to be put. */
function pushChecks(steps: string[], series: PlainSeries, checks: readonly DocCheck[]): number {
  series.end();
  const behind = steps.push(String(-checks.length), "") - 1;
  for (const { kind, id, version } of checks) steps.push(docField(kind, id), String(version));
  return behind;
}

/**
 * Plain jobs of one shape in a row. If a job has the same lead as the one before it, a series begins whose jobs share
 * their lead.
 */
class PlainSeries {
  readonly #steps: string[];
  #shape: string | null = null;
  #last: NewJob | null = null;
  #isLed = false;
  #at = 0;
  #length = 0;

  constructor(steps: string[]) {
    this.#steps = steps;
  }

  add(shape: string, job: NewJob): void {
    const isLed =
      isOfFlow(job) && shape === this.#shape && this.#last !== null && hasSameLead(this.#last, job);
    if (shape !== this.#shape || isLed !== this.#isLed) this.#begin(shape, isLed ? job : null);
    this.#last = job;
    this.#steps.push(packText(job.id), isLed ? inputText(job) : plainBodyText(job));
    this.#length += 1;
  }

  end(): void {
    if (this.#shape !== null) this.#steps[this.#at] = `${this.#isLed ? "+" : ""}${this.#length}`;
    this.#shape = null;
  }

  #begin(shape: string, leader: NewJob | null): void {
    this.end();
    this.#shape = shape;
    this.#isLed = leader !== null;
    this.#at = this.#steps.length;
    this.#length = 0;
    this.#steps.push("", shape);
    if (leader !== null) this.#steps.push(leadText(leader));
  }
}

function created({ jobs }: SubmitUnit): SubmitAnswer {
  return { kind: "ok", ids: jobs.map(({ id }) => id), hows: jobs.map((): SubmitHow => "created") };
}

type Refusal = Extract<SubmitAnswer, { readonly kind: "refused" }>;

function answerOf(answer: string): SubmitAnswer {
  const [kind, ...rest] = answer.split(fieldEnd);
  if (kind === "refused") {
    const [reason, id = ""] = rest;
    return { kind, reason: reason as Refusal["reason"], id: unpackText(id) };
  }
  return {
    kind: "ok",
    ids: rest.filter((_, at) => at % 2 === 1).map(unpackText),
    hows: rest.filter((_, at) => at % 2 === 0) as SubmitHow[],
  };
}
