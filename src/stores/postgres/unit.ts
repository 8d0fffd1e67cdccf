/** Jobs, documents and what comes next, as the functions read them one by one. Texts are packed; names are those of sql/*.ts. */
import type { ChangeNext, Due } from "../../model/change.ts";
import { eventCodes } from "../../model/event-kind.ts";
import { stateCodes } from "../../model/job-state.ts";
import type { UniqueHold } from "../../model/unique-key.ts";
import type { DocPut, NewJob } from "../../store/records.ts";
import { packNullable, packText } from "./text.ts";

export function holdCode(hold: UniqueHold): number {
  return hold === "started" ? -1 : hold === "end" ? -2 : hold;
}

export function tagsText(tags: NewJob["tags"]): string | null {
  return tags === null || tags.length === 0 ? null : JSON.stringify(tags.map(packText));
}

const dueOf = (due: Due): object => ("at" in due ? { dueAt: due.at } : { dueIn: due.inMs });

export function unitJob(job: NewJob): object {
  const { deadline, unique } = job;
  return {
    id: packText(job.id),
    digest: packNullable(job.digest),
    queue: packText(job.queue),
    name: packText(job.name),
    input: packText(job.input),
    policy: packNullable(job.policy),
    meta: packNullable(job.meta),
    tags: tagsText(job.tags),
    ...dueOf(job.due),
    rankBase: job.rankBase,
    rankSlope: job.rankSlope,
    ttl: job.ttlMs,
    ...(deadline === null
      ? {}
      : "at" in deadline
        ? { deadlineAt: deadline.at }
        : { deadlineIn: deadline.inMs }),
    ...(unique === null
      ? {}
      : { key: packText(unique.key), hold: holdCode(unique.hold), onHeld: unique.onHeld }),
  };
}

export function unitDoc(put: DocPut): object {
  const { guard, dueInMs = null, expiresInMs = null } = put;
  return {
    kind: packText(put.kind),
    id: packText(put.id),
    body: packNullable(put.body),
    guard: guard === "any" ? -1 : guard === "absent" ? 0 : guard.version,
    dueIn: dueInMs,
    expiresIn: expiresInMs,
  };
}

/** `late`: may be refused after something of it was written. A single look-up comes before any write. */
export function unitOf(unit: {
  jobs: readonly NewJob[];
  docs: readonly DocPut[];
  isRepeat: boolean;
  isEffect: boolean;
}): object {
  const { jobs, docs, isRepeat, isEffect } = unit;
  const late = docs.length > 0 || ((isEffect || jobs.length > 1) && jobs.some((job) => job.digest !== null));
  return { jobs: jobs.map(unitJob), docs: docs.map(unitDoc), repeat: isRepeat, late };
}

export function nextOf(next: ChangeNext): object {
  const event = eventCodes[next.event];
  switch (next.to) {
    case "scheduled":
      return {
        to: next.to,
        event,
        ...dueOf(next.due),
        rankBase: next.rankBase,
        rankSlope: next.rankSlope,
        countsAttempt: next.countsAttempt,
        ttl: next.ttlMs,
        ...(next.attempt === undefined ? {} : { attempt: next.attempt }),
        ...editOf(next.edit),
      };
    case "ready":
      return { to: next.to, event, countsAttempt: next.countsAttempt };
    case "same":
      return {
        to: next.to,
        event,
        cancelAsked: next.cancelAsked ?? null,
        ...(next.rankBase === undefined ? {} : { rankBase: next.rankBase }),
        ...(next.rankSlope === undefined ? {} : { rankSlope: next.rankSlope }),
        ...editOf(next.edit),
      };
    case "removed":
      return { to: next.to, event };
    default:
      return {
        to: stateCodes[next.to],
        event,
        reason: packNullable(next.reason),
        result: packNullable(next.result),
        keep: next.keepMs,
      };
  }
}

function editOf(edit: { input?: string; policy?: string | null; meta?: string | null } | undefined): object {
  if (edit === undefined) return {};
  const { input, policy, meta } = edit;
  return {
    edit: {
      ...(input === undefined ? {} : { input: packText(input) }),
      ...(policy === undefined ? {} : { policy: packNullable(policy) }),
      ...(meta === undefined ? {} : { meta: packNullable(meta) }),
    },
  };
}
