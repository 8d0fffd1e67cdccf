/** Claim (sql/claim.ts): the columns of what was handed out, put together again. */
import type { ClaimAnswer, ClaimRequest } from "../../store/operations.ts";
import type { LeasedJob, Route } from "../../store/records.ts";
import { callScalar, lightly } from "./call.ts";
import type { Calls } from "./call.ts";
import type { Row } from "./database.ts";
import type { ClaimPlan, Floors, Looks } from "./floors.ts";
import { answerFields } from "./sql/claim.ts";
import {
  numberList,
  packText,
  readBrief,
  readNullableNumbers,
  readNumber,
  readNumbers,
  readTexts,
  unpackText,
} from "./text.ts";

export async function claim(calls: Calls, floors: Floors, request: ClaimRequest): Promise<ClaimAnswer> {
  const offers = request.offers
    .filter(({ routes, max }) => routes.length > 0 && max > 0)
    .map(({ routes, max }) => ({ routes: [...new Set(routes)], max }));
  const plan = floors.plan(offers, request.leaseMs);
  const { answer, looks } = await ask(calls, request, offers, plan);
  floors.learn(offers, plan, looks);
  // Below its floor an offer may still find something.
  if (answer.jobs.length > 0 || !plan.isBounded) return answer;
  const whole = floors.planWhole(offers);
  const again = await ask(calls, request, offers, whole);
  floors.learn(offers, whole, again.looks);
  return again.answer;
}

interface Offer {
  readonly routes: readonly number[];
  readonly max: number;
}

async function ask(
  calls: Calls,
  request: ClaimRequest,
  offers: readonly Offer[],
  plan: ClaimPlan,
): Promise<{ readonly answer: ClaimAnswer; readonly looks: Looks }> {
  const ends: number[] = [];
  for (const { routes } of offers) ends.push((ends.at(-1) ?? 0) + routes.length);
  const values = [
    packText(request.owner),
    request.leaseMs,
    numberList(offers.flatMap(({ routes }) => routes)),
    numberList(ends),
    numberList(offers.map(({ max }) => max)),
    plan.isBounded ? numberList(plan.floors) : null,
    request.routesKnown,
    plan.knownClock === null,
  ];
  const fields = (await callScalar(lightly(calls), "claim_v1", values)).split("\x1f");
  const [time, pickUs, nextClock, newRoutes] = fields as [string, string, string, string];
  const now = Number(time);
  const jobs: LeasedJob[] = [];
  const taken = offers.map(() => 0);
  const lowest: (number | null)[] = offers.map(() => null);
  for (let from = 4; from < fields.length; from += answerFields) {
    const batch = fields.slice(from, from + answerFields).map((field) => (field === "" ? null : field));
    const offer = Number(batch[1]) - 1;
    const before = jobs.length;
    const first = jobsOf(batch, jobs);
    taken[offer] = (taken[offer] ?? 0) + jobs.length - before;
    lowest[offer] ??= first;
  }
  const clock = plan.knownClock ?? readNumber(nextClock === "" ? null : nextClock);
  const answer: ClaimAnswer = {
    jobs,
    routes: routesOf(newRoutes),
    more: offers.some(({ max }, index) => taken[index] === max),
    nextDueInMs: clock === null ? null : Math.max(0, clock - now),
    now,
  };
  return { answer, looks: { lowest, pickUs: Number(pickUs), jobs: jobs.length, clock, now } };
}

/** Adds the jobs of a batch in order of (rank, seq). Answers the lowest rank. */
function jobsOf(batch: Row, jobs: LeasedJob[]): number | null {
  const [time, , seqList, fenceList, routeList, revList, attemptList, createdList, dueList] = batch;
  const claimedAt = Number(time);
  const seqs = readNumbers(seqList ?? null);
  const count = seqs.length;
  const fences = readBrief(fenceList ?? null, count);
  const routes = readBrief(routeList ?? null, count);
  const revs = readBrief(revList ?? null, count);
  const attempts = readBrief(attemptList ?? null, count);
  const created = readNumbers(createdList ?? null);
  const due = dueList === null ? created : readNumbers(dueList ?? null);
  const [deadlineList, idList, inputList, policyList, metaList, logList, rankList] = batch.slice(9);
  const deadlines = readNullableNumbers(deadlineList ?? null);
  const ids = readTexts(idList ?? null, count);
  const inputs = readTexts(inputList ?? null, count);
  const policies = readTexts(policyList ?? null, count);
  const metas = readTexts(metaList ?? null, count);
  const logs = readTexts(logList ?? null, count);
  const ranks = rankList === null ? due : readNumbers(rankList ?? null);
  const order = inOrder(ranks, seqs);
  for (const index of order) {
    jobs.push({
      id: ids[index] as string,
      seq: seqs[index] as number,
      fence: fences[index] as number,
      route: routes[index] as number,
      rev: revs[index] as number,
      attempt: attempts[index] as number,
      input: inputs[index] as string,
      policy: policies[index] ?? null,
      meta: metas[index] ?? null,
      attempts: logs[index] ?? null,
      createdAt: created[index] as number,
      dueAt: due[index] as number,
      claimedAt,
      deadlineAt: deadlines[index] ?? null,
    });
  }
  return ranks[order[0] ?? 0] ?? null;
}

/** Rows come as they lie in the table, which mostly is their order already. */
function inOrder(ranks: readonly number[], seqs: readonly number[]): number[] {
  const order = ranks.map((_, index) => index);
  const compare = (one: number, other: number): number =>
    (ranks[one] as number) - (ranks[other] as number) || (seqs[one] as number) - (seqs[other] as number);
  for (let index = 1; index < order.length; index++)
    if (compare(index - 1, index) > 0) return order.sort(compare);
  return order;
}

function routesOf(json: string): Route[] {
  const rows = JSON.parse(json === "" ? "[]" : json) as [number: number, queue: string, name: string][];
  return rows.map(([number, queue, name]) => ({
    number,
    queue: unpackText(queue),
    name: unpackText(name),
    caps: [],
  }));
}
