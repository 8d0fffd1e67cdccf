/**
 * Jobs, documents and what comes next, as the library reads them: texts joined by \x1f, "" for none.
 *
 *  finish     to US event US keep US reason US result           hand back   R US event US counts          remove   X US event
 *  schedule   S US event US due US base US slope US counts US ttl US attempt US edited US input US policy US meta
 *  mark       M US event US cancel US base US slope US edited US input US policy US meta
 *  due        +ms from now, or =instant
 */
import type { ChangeNext, Due, Edit } from "../../model/change.ts";
import { eventCodes } from "../../model/event-kind.ts";
import { stateCodes } from "../../model/job-state.ts";
import type { UniqueHold } from "../../model/unique-key.ts";
import type { DocPut, NewJob } from "../../store/records.ts";
import { fieldEnd, itemEnd, packNullable, packNumber, packText } from "./text.ts";

function dueText(due: Due): string {
  return "at" in due ? `=${due.at}` : `+${due.inMs}`;
}

function holdText(hold: UniqueHold): string {
  return hold === "started" ? "s" : hold === "end" ? "e" : String(hold);
}

export function routeText({ queue, name }: Pick<NewJob, "queue" | "name">): string {
  return `${packText(queue)}${fieldEnd}${packText(name)}`;
}

/** The routes that a call names, each once; a job names its place in the list. */
export class RouteList {
  readonly #places = new Map<string, number>();
  #last: { readonly queue: string; readonly name: string; readonly place: number } | null = null;

  place({ queue, name }: NewJob): number {
    const last = this.#last;
    if (last !== null && last.queue === queue && last.name === name) return last.place;
    const place = this.#find(queue, name);
    this.#last = { queue, name, place };
    return place;
  }

  #find(queue: string, name: string): number {
    const route = routeText({ queue, name });
    const known = this.#places.get(route);
    if (known !== undefined) return known;
    this.#places.set(route, this.#places.size + 1);
    return this.#places.size;
  }

  args(): string[] {
    return [String(this.#places.size), ...this.#places.keys()];
  }
}

/** What jobs that look alike share. */
export function shapeText(routes: RouteList, job: NewJob): string {
  const { due, deadline, ttlMs, unique, tags } = job;
  const hasTags = tags !== null && tags.length > 0;
  const flags = `${unique === null ? "" : "u"}${hasTags ? "g" : ""}${deadline === null && ttlMs === null ? "" : "c"}`;
  const deadlineText = deadline === null ? "" : dueText(deadline);
  const onHeld = unique === null ? "" : unique.onHeld;
  return `${routes.place(job)}\x1f${dueText(due)}\x1f${job.rankBase}\x1f${job.rankSlope}\x1f${deadlineText}\x1f${packNumber(ttlMs)}\x1f${onHeld}\x1f${flags === "" ? "p" : flags}`;
}

export function bodyText({ unique, digest, tags, policy, meta, input }: NewJob): string {
  const key = unique === null ? fieldEnd : `${packText(unique.key)}${fieldEnd}${holdText(unique.hold)}`;
  const tagged = tags === null || tags.length === 0 ? "" : tags.map(packText).join(itemEnd);
  return `${key}\x1f${packNullable(digest)}\x1f${tagged}\x1f${packNullable(policy)}\x1f${packNullable(meta)}\x1f${packText(input)}`;
}

export function docField(kind: string, id: string): string {
  return `${packText(kind)}${fieldEnd}${packText(id)}`;
}

/** Kind and id, guard, due in, expires in, body. */
export function pushDoc(args: string[], put: DocPut): void {
  const { guard, dueInMs, expiresInMs } = put;
  args.push(
    docField(put.kind, put.id),
    guard === "any" ? "any" : guard === "absent" ? "0" : String(guard.version),
    packNumber(dueInMs),
    packNumber(expiresInMs),
    packNullable(put.body),
  );
}

/** Late, jobs, documents, and those. `isLate`: the unit may be refused after something of it was put together. */
export function pushUnit(
  args: string[],
  routes: RouteList,
  unit: { jobs: readonly NewJob[]; docs: readonly DocPut[]; isEffect: boolean },
): void {
  const { jobs, docs, isEffect } = unit;
  const isLate =
    docs.length > 0 || ((isEffect || jobs.length > 1) && jobs.some((job) => job.digest !== null));
  args.push(isLate ? "1" : "0", String(jobs.length), String(docs.length));
  for (const job of jobs) args.push(shapeText(routes, job), packText(job.id), bodyText(job));
  for (const put of docs) pushDoc(args, put);
}

export function nextText(next: ChangeNext): string {
  const event = eventCodes[next.event];
  switch (next.to) {
    case "scheduled":
      return [
        ...["S", event, dueText(next.due), next.rankBase, next.rankSlope, next.countsAttempt],
        ...[packNumber(next.ttlMs), packNumber(next.attempt), ...editFields(next.edit)],
      ].join(fieldEnd);
    case "ready":
      return ["R", event, next.countsAttempt].join(fieldEnd);
    case "same": {
      const cancel = next.cancelAsked === undefined ? "" : next.cancelAsked ? "1" : "0";
      const rank = [packNumber(next.rankBase), packNumber(next.rankSlope)];
      return ["M", event, cancel, ...rank, ...editFields(next.edit)].join(fieldEnd);
    }
    case "removed":
      return ["X", event].join(fieldEnd);
    default:
      return [
        ...[stateCodes[next.to], event, packNumber(next.keepMs)],
        ...[packNullable(next.reason), packNullable(next.result)],
      ].join(fieldEnd);
  }
}

function editFields(edit: Edit = {}): string[] {
  const { input, policy, meta } = edit;
  const given = `${input === undefined ? "" : "i"}${policy === undefined ? "" : "p"}${meta === undefined ? "" : "m"}`;
  return [
    given,
    input === undefined ? "" : packText(input),
    packNullable(policy ?? null),
    packNullable(meta ?? null),
  ];
}
