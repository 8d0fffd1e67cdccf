/** Claim (sql/claim.ts): the columns of what was handed out, put together again. */
import type { ClaimAnswer, ClaimRequest } from "../../store/operations.ts";
import type { LeasedJob, Route } from "../../store/records.ts";
import { callLightly } from "./call.ts";
import type { Calls } from "./call.ts";
import type { Row } from "./database.ts";
import type { ClaimPlan, Floors, Looks } from "./floors.ts";
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
  const rows = await callLightly(calls, "claim_v1", values);
  const last = rows.at(-1) as Row;
  const now = Number(last[0]);
  const jobs: LeasedJob[] = [];
  const taken = offers.map(() => 0);
  const lowest: (number | null)[] = offers.map(() => null);
  for (const row of rows) {
    if (row[1] === null) continue;
    const offer = Number(row[16]) - 1;
    const before = jobs.length;
    const first = jobsOf(row, jobs);
    taken[offer] = (taken[offer] ?? 0) + jobs.length - before;
    lowest[offer] ??= first;
  }
  const clock = plan.knownClock ?? readNumber(last[15] ?? null);
  const answer: ClaimAnswer = {
    jobs,
    routes: routesOf(last[14] ?? null),
    more: offers.some(({ max }, index) => taken[index] === max),
    nextDueInMs: clock === null ? null : Math.max(0, clock - now),
    now,
  };
  return { answer, looks: { lowest, pickUs: Number(last[18] ?? 0), jobs: jobs.length, clock, now } };
}

/** Adds the jobs of a row in order of (rank, seq). Answers the lowest rank. */
function jobsOf(row: Row, jobs: LeasedJob[]): number | null {
  const claimedAt = Number(row[0]);
  const seqs = readNumbers(row[1] ?? null);
  const count = seqs.length;
  const fences = readBrief(row[2] ?? null, count);
  const routes = readBrief(row[3] ?? null, count);
  const revs = readBrief(row[4] ?? null, count);
  const attempts = readBrief(row[5] ?? null, count);
  const created = readNumbers(row[6] ?? null);
  const due = row[7] === null ? created : readNumbers(row[7] ?? null);
  const deadlines = readNullableNumbers(row[8] ?? null);
  const ids = readTexts(row[9] ?? null, count);
  const inputs = readTexts(row[10] ?? null, count);
  const policies = readTexts(row[11] ?? null, count);
  const metas = readTexts(row[12] ?? null, count);
  const logs = readTexts(row[13] ?? null, count);
  const ranks = row[17] === null ? due : readNumbers(row[17] ?? null);
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

function routesOf(json: string | null): Route[] {
  const rows = JSON.parse(json ?? "[]") as [number: number, queue: string, name: string][];
  return rows.map(([number, queue, name]) => ({
    number,
    queue: unpackText(queue),
    name: unpackText(name),
    caps: [],
  }));
}
