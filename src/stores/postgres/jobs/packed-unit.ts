/**
 * Jobs, documents and changes, as the functions of the general path read them: JSON with packed texts, fields under the
 * names of their columns.
 */
import type { ChangeNext, Edit, Finish, SettleNext } from "../../../model/job/change.ts";
import { eventCodes } from "../../../model/events/event-kind.ts";
import { queueGateKey } from "../../../model/limits/gate.ts";
import { isTerminal, stateCodes } from "../../../model/job/job-state.ts";
import type { JobState } from "../../../model/job/job-state.ts";
import { bundleOfPut, packEvents } from "../../../store/packing/packed-events.ts";
import { isGrowth } from "../../../store/path-predicates.ts";
import type { Add, DocCheck, DocPut, Growth, NewJob } from "../../../store/records.ts";
import { leftBy } from "../../../store/rules/add.ts";
import { givenBy } from "../../../store/rules/place.ts";
import { holdsOf } from "../../../store/rules/unique-holds.ts";
import { packFields } from "../functions/columns.ts";
import type { RouteList } from "./routes.ts";
import { inlineBytesMax } from "../runs/advance.sql.ts";
import { packNullable, packText } from "../functions/packed-values.ts";

export interface Unit {
  readonly jobs: readonly NewJob[];
  readonly docs: readonly DocPut[];
  readonly checks?: readonly DocCheck[] | undefined;
  readonly isRepeat: boolean;
  /** Whether it needs a savepoint (functions/each-item.sql.ts). */
  readonly isLate: boolean;
  readonly grows?: Growth["grows"] | undefined;
  readonly links?: Growth["links"] | undefined;
  /** Inside the caller's transaction an end does not go along its edges: that is deferred. */
  readonly isInside: boolean;
  /** Whether its jobs are refused if the intake of their queue is closed; set if one of the call's queues is. */
  readonly asksGates?: boolean;
}

export function unitOf(unit: Unit, routes: RouteList): object {
  const { jobs, docs, checks = [], isRepeat, isLate, isInside, asksGates, ...growth } = unit;
  const queueGateOf = ({ queue }: NewJob): object =>
    asksGates === true ? { queueGate: packText(queueGateKey(queue)) } : {};
  return {
    jobs: jobs.map((job) => ({ ...unitJob(job, routes), ...queueGateOf(job) })),
    ...{ docs: docs.map(unitDoc), isRepeat, isLate, isInside },
    ...(isGrowth(growth) ? growthOf(growth) : {}),
    ...(checks.length === 0 ? {} : checksOf({ checks })),
  };
}

/**
 * Whether an input is kept in the table payload. Its bytes are counted only if its length in characters does not decide
 * it.
 */
export function isLarge(input: string): boolean {
  if (input.length * 3 <= inlineBytesMax) return false;
  return input.length > inlineBytesMax || Buffer.byteLength(packText(input)) > inlineBytesMax;
}

function unitJob(job: NewJob, routes: RouteList): object {
  const { due, rankBase, rankSlope, ttlMs, deadline, unique } = job;
  const given = givenBy(job);
  const holds = holdsOf(given.uniqueHold ?? null);
  return {
    given: packFields({ ...given, route: routes.add(job).number, holds }),
    ...{ due, rankBase, rankSlope, ttlMs, deadline },
    onHeld: unique?.onHeld,
  };
}

export function unitDoc(put: DocPut): object {
  const place = { kind: packText(put.kind), id: packText(put.id) };
  const { due = null, expiresInMs = null } = put;
  if (put.add !== undefined) return { ...place, add: packedAdd(put.add), expiresIn: expiresInMs };
  const { guard } = put;
  return {
    ...place,
    body: packNullable(put.body),
    guard: guard === "any" ? null : guard === "absent" ? 0 : guard.version,
    due,
    expiresIn: expiresInMs,
    emits: put.emits && packEvents([bundleOfPut(put.emits)]),
  };
}

/** What is no whole number of 53 bits is sent as none: Postgres could count with it. */
function packedAdd({ by, leaves, ...limits }: Add): object {
  const packed = { ...limits, by: Number.isSafeInteger(by) ? by : null };
  return leaves === undefined ? packed : { ...packed, leaves: unitDoc(leftBy(leaves)) };
}

function growthOf({ grows = [], links = [] }: Pick<Unit, "grows" | "links">): object {
  return {
    grows: grows.map((each) => ({ ...each, id: packText(each.id) })),
    links: links.map(({ from, edge }) => ({ from: packText(from), edge: packText(edge) })),
  };
}

export function checksOf({ checks = [] }: Pick<Unit, "checks">): object {
  return {
    checks: checks.map(({ kind, id, version }) => ({ kind: packText(kind), id: packText(id), version })),
  };
}

export function nextOf(next: ChangeNext | SettleNext): object {
  const event = eventCodes[next.event];
  if (isTerminal(next.to as JobState)) {
    const { to, reason, result, keepMs, keepResultMs, keepsLane } = next as Finish;
    const texts = { reason: packNullable(reason), result: packNullable(result) };
    return { to: stateCodes[to], event, ...texts, keepMs, keepResultMs, keepsLane };
  }
  if (next.to === "blocked") return { ...next, event, parents: next.parents.map(packText) };
  const { edit } = next as { readonly edit?: Edit };
  return { ...next, event, edit: edit && packFields(edit) };
}
