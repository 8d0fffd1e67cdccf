/** Submit (lua/submit.ts, lua/submit-one.ts, lua/submit-claim.ts): runs of plain jobs travel without asking for an answer; units that may meet something are answered one by one. */
import type { SubmitAnswer, SubmitHow, SubmitUnit } from "../../store/operations.ts";
import { emptyHints } from "../../store/hints.ts";
import type { NewJob } from "../../store/records.ts";
import type { Calls } from "./call.ts";
import { readHints } from "./hint-text.ts";
import { bodyText, pushUnit, RouteList, routeText, shapeText } from "./next.ts";
import { fieldEnd, packText, unpackText } from "./text.ts";

export async function submit(calls: Calls, units: readonly SubmitUnit[]): Promise<SubmitAnswer[]> {
  const only = onlyJob(units);
  if (only !== null) {
    await submitOne(calls, only);
    return units.map(created);
  }
  const routes = new RouteList();
  const steps: string[] = [];
  const run = new PlainRun(steps);
  for (const unit of units) {
    if (isPlain(unit)) {
      for (const job of unit.jobs) run.add(shapeText(routes, job), job);
      continue;
    }
    run.end();
    const { jobs, docs = [], isRepeat = false } = unit;
    steps.push("0", isRepeat ? "1" : "0");
    pushUnit(steps, routes, { jobs, docs, isEffect: false });
  }
  if (steps.length === 0) return units.map(created);
  const { count } = calls.claims;
  const [, hints, answers] = (await calls.connection.write("mr1_submit", [...routes.args(), ...steps])) as [
    string,
    unknown,
    string[],
  ];
  calls.tell(calls.claims.without(readHints(hints), count));
  let at = 0;
  return units.map((unit) => (isPlain(unit) ? created(unit) : answerOf(answers[at++] as string)));
}

/** The job of a call that has no other and wants nothing special. */
function onlyJob(units: readonly SubmitUnit[]): NewJob | null {
  const [unit] = units;
  if (units.length !== 1 || unit?.jobs.length !== 1 || !isPlain(unit)) return null;
  const [job] = unit.jobs as [NewJob];
  const { due, deadline, ttlMs, tags } = job;
  const isPlainest = deadline === null && ttlMs === null && (tags === null || tags.length === 0);
  return isPlainest && "inMs" in due && due.inMs === 0 ? job : null;
}

async function submitOne(calls: Calls, job: NewJob): Promise<void> {
  const { count } = calls.claims;
  const route = await calls.pairs.submitOne([
    ...["1", routeText(job), String(job.rankBase), String(job.rankSlope)],
    ...[packText(job.id), bodyText(job)],
  ]);
  const hints = emptyHints();
  hints.routes.add(Number(route));
  calls.tell(calls.claims.without(hints, count));
}

/** Plain jobs of one shape in a row: their number, the shape, then id and body of each. */
class PlainRun {
  readonly #steps: string[];
  #shape: string | null = null;
  #at = 0;
  #length = 0;

  constructor(steps: string[]) {
    this.#steps = steps;
  }

  add(shape: string, job: NewJob): void {
    if (shape !== this.#shape) {
      this.#shape = shape;
      this.#at = this.#steps.push("0", shape) - 2;
      this.#length = 0;
    }
    this.#steps.push(packText(job.id), bodyText(job));
    this.#length += 1;
    this.#steps[this.#at] = String(this.#length);
  }

  end(): void {
    this.#shape = null;
  }
}

function isPlain({ jobs, docs, isRepeat }: SubmitUnit): boolean {
  if (isRepeat === true || (docs !== undefined && docs.length > 0)) return false;
  return jobs.every((job) => job.digest === null && job.unique === null);
}

function created({ jobs }: SubmitUnit): SubmitAnswer {
  return { kind: "ok", ids: jobs.map(({ id }) => id), hows: jobs.map((): SubmitHow => "created") };
}

const hows: Readonly<Record<string, SubmitHow>> = {
  c: "created",
  e: "existing",
  r: "replaced",
  s: "rescheduled",
};

function answerOf(answer: string): SubmitAnswer {
  const [kind, ...rest] = answer.split(fieldEnd);
  if (kind === "refused") {
    const [reason, id = ""] = rest;
    return { kind, reason: reason as "id-differs" | "doc-changed", id: unpackText(id) };
  }
  return {
    kind: "ok",
    ids: rest.map((job) => unpackText(job.slice(1))),
    hows: rest.map((job) => hows[job.slice(0, 1)] as SubmitHow),
  };
}
