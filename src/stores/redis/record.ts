/** The two records of a job (lua/job.ts draws them), put together as the contract hands a job out. */
import { stateOfCode } from "../../model/job-state.ts";
import type { DueJob, JobRecord, LeasedJob } from "../../store/records.ts";
import type { RouteBook, RoutePage } from "./route-book.ts";
import { fieldEnd, itemEnd, readNumber, seqOf, unpackNullable, unpackText } from "./text.ts";

/** Fields of a spec, by place. */
const spec = {
  ...{ id: 1, route: 2, created: 3, due: 4, rank: 5, deadline: 6, ttl: 7 },
  ...{ key: 8, tags: 11, policy: 12, meta: 13, input: 14 },
} as const;
/** Fields of a state, by place; the status is the first letter of the fence. */
const state = {
  ...{
    fence: 0,
    rev: 2,
    route: 5,
    attempt: 6,
    counts: 7,
    cancel: 8,
    due: 9,
    rank: 10,
    deadline: 11,
    ttl: 12,
  },
  ...{ owner: 13, claimed: 14, started: 15, lease: 16, ends: 17, ended: 18, keep: 19 },
  ...{ reason: 20, result: 21, log: 22, progress: 23 },
} as const;

type Parts = readonly string[];

const text = (parts: Parts, place: number): string => parts[place] ?? "";

/** A state that says nothing about it leaves the spec's. */
function deadlineOf(specs: Parts, states: Parts): number | null {
  const own = text(states, state.deadline);
  if (own === "-") return null;
  return readNumber(own === "" ? text(specs, spec.deadline) : own);
}

/** A spec that names no due time means that of its making, and without a rank its due time. */
function dueOf(specs: Parts, states: Parts): number {
  return Number(text(states, state.due) || text(specs, spec.due) || text(specs, spec.created));
}

function rankOf(specs: Parts, states: Parts): number {
  const rank = text(states, state.rank) || text(specs, spec.rank);
  return rank === "" ? dueOf(specs, []) : Number(rank);
}

/** As a claim hands it out. `stateText` "" is the first claim of a plain job, whose fence is the epoch's first. */
export function leasedJobOf(
  routes: RouteBook,
  handle: string,
  specText: string,
  stateText: string,
  first: { readonly fence: number; readonly claimedAt: number },
): LeasedJob {
  const specs = specText.split(fieldEnd);
  const states = stateText === "" ? [] : stateText.split(fieldEnd);
  const isFirst = stateText === "";
  return {
    id: unpackText(text(specs, spec.id)),
    seq: seqOf(handle),
    fence: isFirst ? first.fence : Number(text(states, state.fence).slice(1)),
    route: routes.ownOf(Number(isFirst ? text(specs, spec.route) : text(states, state.route))),
    rev: isFirst ? 2 : Number(text(states, state.rev)),
    attempt: isFirst ? 1 : Number(text(states, state.attempt)),
    input: unpackText(text(specs, spec.input)),
    policy: unpackNullable(text(specs, spec.policy)),
    meta: unpackNullable(text(specs, spec.meta)),
    attempts: unpackNullable(text(states, state.log)),
    createdAt: Number(text(specs, spec.created)),
    dueAt: dueOf(specs, states),
    claimedAt: isFirst ? first.claimedAt : Number(text(states, state.claimed)),
    deadlineAt: deadlineOf(specs, states),
  };
}

/** A job without a state has never been touched. */
function untouched(specs: Parts): Parts {
  const isReady = dueOf(specs, []) <= Number(text(specs, spec.created));
  const states = [`${isReady ? 2 : 1}0`, "", "1", "", "", text(specs, spec.route), "0", "1", "0"];
  states[state.ttl] = text(specs, spec.ttl);
  return states;
}

export function jobRecordOf(
  routes: { readonly book: RouteBook; readonly page: RoutePage },
  handle: string,
  specText: string,
  stateText: string,
): JobRecord {
  const specs = specText.split(fieldEnd);
  const states = stateText === "" ? untouched(specs) : stateText.split(fieldEnd);
  const number = (place: number): number | null => readNumber(text(states, place));
  const { queue, name } = routes.book.of(routes.page, Number(text(states, state.route)));
  const tags = text(specs, spec.tags);
  return {
    id: unpackText(text(specs, spec.id)),
    seq: seqOf(handle),
    queue,
    name,
    state: stateOfCode(Number(text(states, state.fence).slice(0, 1))),
    rev: Number(text(states, state.rev)),
    fence: Number(text(states, state.fence).slice(1)),
    attempt: Number(text(states, state.attempt)),
    countsAttempt: Number(text(states, state.counts)) as 0 | 1,
    input: unpackText(text(specs, spec.input)),
    policy: unpackNullable(text(specs, spec.policy)),
    meta: unpackNullable(text(specs, spec.meta)),
    tags: tags === "" ? null : tags.split(itemEnd).map(unpackText),
    attempts: unpackNullable(text(states, state.log)),
    progress: unpackNullable(text(states, state.progress)),
    rank: rankOf(specs, states),
    createdAt: Number(text(specs, spec.created)),
    dueAt: dueOf(specs, states),
    deadlineAt: deadlineOf(specs, states),
    ttlAt: number(state.ttl),
    uniqueKey: unpackNullable(text(specs, spec.key)),
    cancelAsked: text(states, state.cancel) === "1",
    owner: unpackNullable(text(states, state.owner)),
    claimedAt: number(state.claimed),
    startedAt: number(state.started),
    leaseEndsAt: number(state.lease),
    attemptEndsAt: number(state.ends),
    endedAt: number(state.ended),
    reason: unpackNullable(text(states, state.reason)),
    result: unpackNullable(text(states, state.result)),
    keepUntil: number(state.keep),
  };
}

/** `clockAt`: when the clock that was asked for rang. */
export function dueJobOf(
  routes: RouteBook,
  handle: string,
  specText: string,
  stateText: string,
  asked: { readonly clock: "lease" | "attempt" | "deadline" | "ttl"; readonly now: number },
): DueJob {
  const specs = specText.split(fieldEnd);
  const states = stateText === "" ? untouched(specs) : stateText.split(fieldEnd);
  const clocks = {
    lease: readNumber(text(states, state.lease)),
    attempt: readNumber(text(states, state.ends)),
    deadline: deadlineOf(specs, states),
    ttl: readNumber(text(states, state.ttl)),
  };
  return {
    id: unpackText(text(specs, spec.id)),
    seq: seqOf(handle),
    fence: Number(text(states, state.fence).slice(1)),
    route: routes.ownOf(Number(text(states, state.route))),
    state: stateOfCode(Number(text(states, state.fence).slice(0, 1))),
    rev: Number(text(states, state.rev)),
    attempt: Number(text(states, state.attempt)),
    policy: unpackNullable(text(specs, spec.policy)),
    attempts: unpackNullable(text(states, state.log)),
    owner: unpackNullable(text(states, state.owner)),
    cancelAsked: text(states, state.cancel) === "1",
    started: text(states, state.started) !== "",
    lateMs: asked.now - (clocks[asked.clock] ?? asked.now),
  };
}
