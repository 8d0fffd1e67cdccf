/** Claim (runs/claim.sql.ts): turns the lists of the answer back into jobs. */
import { readKeyUse } from "../../../model/routing/lane.ts";
import { jobFields } from "../../../store/job-fields.ts";
import type { JobRow } from "../../../store/job-fields.ts";
import { emptyHints } from "../../../store/watch/hints.ts";
import type { ClaimAnswer, ClaimOffer, ClaimRequest } from "../../../store/operations.ts";
import { fieldEnd } from "../../../store/packing/packed-text.ts";
import type { LeasedJob } from "../../../store/records.ts";
import { callScalar, lightly } from "../functions/call.ts";
import type { Calls } from "../functions/call.ts";
import { readList } from "../functions/columns.ts";
import { planWhole } from "./floors.ts";
import type { ClaimPlan, Floors, Looks } from "./floors.ts";
import { listedFields, sameAs } from "./claim.sql.ts";
import {
  itemAt,
  numberList,
  packText,
  readBrief,
  readNumber,
  readNumbers,
  readTexts,
} from "../functions/packed-values.ts";

export async function claim(calls: Calls, floors: Floors, request: ClaimRequest): Promise<ClaimAnswer> {
  const offers = request.offers
    .filter(({ routes, max }) => routes.length > 0 && max > 0)
    .map(({ routes, max, starts = 0 }) => ({ routes: [...new Set(routes)], max, starts }));
  const plan = floors.plan(offers, request.leaseMs);
  const { answer, looks } = await ask(calls, request, offers, plan);
  floors.learn(offers, plan, looks);
  // A claim with a floor found nothing. Below its floor an offer may still have jobs.
  if (answer.jobs.length > 0 || !plan.isBounded) return answer;
  const whole = planWhole(offers);
  const again = await ask(calls, request, offers, whole);
  floors.learn(offers, whole, again.looks);
  return again.answer;
}

async function ask(
  calls: Calls,
  request: ClaimRequest,
  offers: readonly Required<ClaimOffer>[],
  plan: ClaimPlan,
): Promise<{ readonly answer: ClaimAnswer; readonly looks: Looks }> {
  const ends: number[] = [];
  for (const { routes } of offers) ends.push((ends.at(-1) ?? 0) + routes.length);
  const values = {
    p_owner: packText(request.owner),
    p_lease: request.leaseMs,
    p_routes: numberList(offers.flatMap(({ routes }) => routes)),
    p_ends: numberList(ends),
    p_maxes: numberList(offers.map(({ max }) => max)),
    p_starts: numberList(offers.map(({ starts }) => starts)),
    p_floors: plan.isBounded ? numberList(plan.floors) : null,
    p_clock: plan.knownClock === null,
    p_bytes: request.inputBytesMax ?? null,
  };
  const answered = await callScalar(lightly(calls), "claim_v1", values);
  const [time, pickUs, nextClock, isCut, opensAt, seen, ...fields] = answered.split(fieldEnd);
  const now = Number(time);
  const jobs: LeasedJob[] = [];
  const taken = offers.map(() => 0);
  /** The lowest rank that was read, also of a job that a gate has refused, because that job has to be found again. */
  const known = readBrief(seen || null);
  const lowest = offers.map((_, index) => itemAt(known, index));
  const batchLength = 3 + listedFields.length;
  for (let from = 0; from < fields.length; from += batchLength) {
    const [claimedAt, offerNumber, gates, ...lists] = fields.slice(from, from + batchLength);
    const offer = Number(offerNumber) - 1;
    const batch = listsOf(lists);
    const count = batch.seq.length;
    const atMs = Number(claimedAt);
    const gatesOf = gates === "" ? null : readTexts(gates as string);
    for (let at = 0; at < count; at++) {
      const job = leasedJob(batch, at, atMs);
      const laneGates = gatesOf === null ? null : itemAt(gatesOf, at);
      jobs.push(laneGates === null ? job : { ...job, keyGates: keysIn(laneGates) });
    }
    taken[offer] = (taken[offer] ?? 0) + count;
  }
  // Only this process gets the hint: a message for each claim would wake all the others.
  if (jobs.length > 0) calls.emit({ ...emptyHints(), hasEmitted: true }, true);
  const clock = plan.knownClock ?? readNumber(nextClock === "" ? null : (nextClock as string));
  const answer: ClaimAnswer = {
    jobs,
    more: isCut === "t" || offers.some(({ max }, index) => taken[index] === max),
    nextDueInMs: clock === null ? null : Math.max(0, clock - now),
    now,
    ...(opensAt ? { opensInMs: Math.max(0, Number(opensAt) - now) } : {}),
  };
  return { answer, looks: { lowest, pickUs: Number(pickUs), jobs: jobs.length, clock, now } };
}

/** The keys in a list of gates as a row has it. */
function keysIn(laneGates: string): string[] {
  return readList(laneGates).map((use) => readKeyUse(use).key);
}

/** A list has one item if all jobs have the same value (itemAt); the list of seqs is always complete. */
type Lists = { readonly [Name in (typeof listedFields)[number]]: readonly JobRow[Name][] };

function listsOf(texts: readonly string[]): Lists {
  const textOf = (name: string): string | null => texts[listedFields.indexOf(name as "seq")] || null;
  const seqs = readNumbers(textOf("seq"));
  const lists: Record<string, readonly (string | number | null)[]> = { seq: seqs };
  for (const name of listedFields) {
    const text = textOf(name);
    if (name === "seq") continue;
    lists[name] = jobFields[name].type === "text" ? readTexts(text) : readBrief(text);
  }
  // In this order, because a list may be equal to one that was itself left out.
  for (const [name, other] of Object.entries(sameAs))
    if (textOf(name) === null) lists[name] = lists[other] as readonly number[];
  return lists as unknown as Lists;
}

function leasedJob(lists: Lists, index: number, claimedAt: number): LeasedJob {
  return {
    id: itemAt(lists.id, index),
    seq: itemAt(lists.seq, index),
    fence: itemAt(lists.fence, index),
    route: itemAt(lists.route, index),
    rev: itemAt(lists.rev, index),
    attempt: itemAt(lists.attempt, index),
    input: itemAt(lists.input, index),
    policy: itemAt(lists.policy, index),
    meta: itemAt(lists.meta, index),
    attempts: itemAt(lists.attempts, index),
    createdAt: itemAt(lists.createdAt, index),
    dueAt: itemAt(lists.dueAt, index),
    claimedAt,
    deadlineAt: itemAt(lists.deadlineAt, index),
    durable: itemAt(lists.durable, index),
  };
}
