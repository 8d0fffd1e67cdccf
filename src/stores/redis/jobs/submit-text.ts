/**
 * New jobs and documents as the library reads them: what jobs submitted alike share is a **shape** and is sent once for
 * many; what is a job's own is its **body**, in the order in which its spec keeps it (packed-fields.ts).
 */
import type { Due } from "../../../model/job/change.ts";
import { laneOrderOf } from "../../../model/routing/lane.ts";
import { routeOf } from "../../../model/routing/route.ts";
import type { JobFieldName } from "../../../store/job-fields.ts";
import type { SubmitUnit } from "../../../store/operations.ts";
import { bundleOfPut, packEvents } from "../../../store/packing/packed-events.ts";
import { isOfFlow, mayBeRefusedLate } from "../../../store/path-predicates.ts";
import type { Add, DocPut, NewJob, PutEvent } from "../../../store/records.ts";
import { tagsOf } from "../../../store/rules/place.ts";
import { holdCode } from "../../../store/rules/unique-holds.ts";
import { adds, argumentText, valueText } from "../packing/argument-text.ts";
import { dueText } from "../packing/next-text.ts";
import { ownFields, tailFields } from "../packing/packed-fields.ts";
import { contentText, routeText } from "../packing/route-text.ts";
import { fieldEnd, packNullable, packText, packValue } from "../packing/value-text.ts";

/** The shapes of a call's jobs, each once. */
export class Shapes {
  readonly #numbers = new Map<string, string>();

  /** Under which number the job names its shape. */
  numberOf(job: NewJob): string {
    const shape = shapeOf(job);
    let number = this.#numbers.get(shape);
    if (number === undefined) this.#numbers.set(shape, (number = String(this.#numbers.size + 1)));
    return number;
  }

  args(): string[] {
    return [String(this.#numbers.size), ...this.#numbers.keys()];
  }
}

/** The shape asked for last: most jobs are like the one before. */
let last: { readonly job: NewJob; readonly text: string } | null = null;

function shapeOf(job: NewJob): string {
  if (last === null || !isAlike(last.job, job)) last = { job, text: shapeText(job) };
  return last.text;
}

function isAlike(one: NewJob, other: NewJob): boolean {
  return (
    one.queue === other.queue &&
    one.name === other.name &&
    one.requires === other.requires &&
    one.gates === other.gates &&
    laneOrderOf(one) === laneOrderOf(other) &&
    isSameDue(one.due, other.due) &&
    one.rankBase === other.rankBase &&
    one.rankSlope === other.rankSlope &&
    isSameDue(one.deadline, other.deadline) &&
    one.ttlMs === other.ttlMs &&
    one.unique?.onHeld === other.unique?.onHeld &&
    (tagsOf(one) === null) === (tagsOf(other) === null) &&
    hasGates(one) === hasGates(other) &&
    one.waits === other.waits &&
    one.freed === other.freed
  );
}

/** Those of its lane. */
const hasGates = ({ laneGates = null }: NewJob): boolean => laneGates !== null && laneGates.length > 0;

function isSameDue(one: Due | null, other: Due | null): boolean {
  if (one === other) return true;
  return one !== null && other !== null && dueText(one) === dueText(other);
}

function shapeText(job: NewJob): string {
  const { rankBase, rankSlope, ttlMs, unique } = job;
  const route = routeOf(job);
  return argumentText("shape", {
    ...{ route: routeText(route.number), content: contentText(route), due: dueText(job.due) },
    ...{ rankBase, rankSlope, deadline: job.deadline === null ? "" : dueText(job.deadline), ttlMs },
    ...{ onHeld: unique?.onHeld, hasTags: tagsOf(job) !== null },
    ...{ hasLane: laneOrderOf(job) !== null, hasGates: hasGates(job) },
    ...{ waits: packNullable(job.waits ?? null), freed: packNullable(job.freed ?? null) },
  });
}

type Named = Readonly<Partial<Record<JobFieldName, never>>>;

/** A field that a submit does not give under its own name. */
function givenOf(job: NewJob, name: JobFieldName): unknown {
  if (name === "uniqueKey") return job.unique?.key;
  if (name === "uniqueHold") return job.unique === null ? null : holdCode(job.unique.hold);
  return (job as unknown as Named)[name];
}

/** Own fields and tail. */
export function bodyText(job: NewJob): string {
  return leadText(job) + inputText(job);
}

const leadFields: readonly JobFieldName[] = [...ownFields, ...tailFields.slice(0, -1)];

/** A body before its input, in which many jobs of one flow are the same. */
export function leadText(job: NewJob): string {
  return leadFields.map((name) => packValue(givenOf(job, name)) + fieldEnd).join("");
}

export function inputText({ input }: NewJob): string {
  return packText(input);
}

export function hasSameLead(one: NewJob, other: NewJob): boolean {
  return leadFields.every((name) => isSameValue(givenOf(one, name), givenOf(other, name)));
}

function isSameValue(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (!Array.isArray(one) || !Array.isArray(other) || one.length !== other.length) return false;
  return one.every((item, at) => item === other[at]);
}

/** Of a plain job: one that will have a short spec has nothing of its own. */
export function plainBodyText(job: NewJob): string {
  const isShort = tagsOf(job) === null && job.deadline === null && job.ttlMs === null;
  return isShort && laneOrderOf(job) === null && !isOfFlow(job) ? tailText(job) : bodyText(job);
}

function tailText(job: NewJob): string {
  return tailFields.map((name) => packValue((job as unknown as Named)[name])).join(fieldEnd);
}

/** Its id may be there with another digest; or it is a member of a flow, whose key may be held. */
function mayBeRefused(job: NewJob): boolean {
  return job.digest !== null || (isOfFlow(job) && job.unique !== null);
}

export function docField(kind: string, id: string): string {
  return `${packText(kind)}${fieldEnd}${packText(id)}`;
}

export function pushDoc(args: string[], put: DocPut): void {
  args.push(docField(put.kind, put.id));
  if (put.add !== undefined) {
    args.push(adds, "", valueText(put.expiresInMs), addText(put.add), "");
    return;
  }
  const { guard, due, expiresInMs } = put;
  args.push(guard === "any" ? guard : guard === "absent" ? "0" : String(guard.version));
  args.push(due ? dueText(due) : "", valueText(expiresInMs), packNullable(put.body));
  args.push(eventText(put.emits));
}

function addText({ by, ceiling, marks = [], leaves }: Add): string {
  const left = leaves === undefined ? "" : docField(leaves.kind, leaves.id);
  return argumentText("add", { by, ceiling, marks: marks.join(","), leaves: left });
}

/** What a put emits, packed; "" for nothing. */
export function eventText(emits: PutEvent | undefined): string {
  return emits === undefined ? "" : packEvents([bundleOfPut(emits)], routeText);
}

/** Effects follow a change of their job, so for them every refusal is late. */
export function pushUnit(args: string[], shapes: Shapes, unit: SubmitUnit, isEffect = false): void {
  const { jobs, grows = [], links = [], docs = [], checks = [] } = unit;
  const isLate = mayBeRefusedLate(unit) || (isEffect && jobs.some(mayBeRefused));
  args.push(valueText(isLate));
  for (const { length } of [checks, jobs, grows, links, docs]) args.push(String(length));
  for (const { kind, id, version } of checks) args.push(docField(kind, id), String(version));
  for (const job of jobs) args.push(shapes.numberOf(job), packText(job.id), bodyText(job));
  for (const { id, need, slack, members } of grows)
    args.push(packText(id), String(need), String(slack), String(members));
  for (const { from, edge } of links) args.push(packText(from), packText(edge));
  for (const put of docs) pushDoc(args, put);
}
