/** Claim (claim.lua.ts): the records of what was handed out, put together as leased jobs. */
import { untilMs } from "../../../store/due-job.ts";
import type { ClaimAnswer, ClaimRequest } from "../../../store/operations.ts";
import type { LeasedJob } from "../../../store/records.ts";
import { valueText } from "../packing/argument-text.ts";
import type { Operation } from "../connection/call.ts";
import { claimedReader } from "./claimed-reader.ts";
import { routeText } from "../packing/route-text.ts";
import { packText, readNumber, rowsOf } from "../packing/value-text.ts";

type Answer = [
  at: string,
  clock: string,
  filled: number,
  first: string,
  handles: string,
  specs: string[],
  others: (number | string)[],
  opensInMs?: string,
];

export const claim: Operation<"claim"> = async (
  { flush },
  { owner, leaseMs, inputBytesMax, offers }: ClaimRequest,
): Promise<ClaimAnswer> => {
  const args = [packText(owner), String(leaseMs), valueText(inputBytesMax)];
  const asked: number[] = [];
  for (const { routes, max, starts = 0 } of offers) {
    const numbers = [...new Set(routes)];
    if (numbers.length === 0 || max <= 0) continue;
    args.push(String(max), String(starts), String(numbers.length), ...numbers.map(routeText));
    asked.push(...numbers);
  }
  const answer = (await flush.call("claim", args, asked)) as Answer;
  const [at, clock, filled, first, handles, specs, others, opensInMs] = answer;
  const now = Number(at);
  return {
    jobs: leasedJobs(first, handles, specs, others),
    more: filled > 0,
    nextDueInMs: untilMs(readNumber(clock), now),
    now,
    ...(opensInMs === undefined ? {} : { opensInMs: Number(opensInMs) }),
  };
};

function leasedJobs(
  first: string,
  handles: string,
  specs: readonly string[],
  others: readonly (number | string)[],
): LeasedJob[] {
  if (specs.length === 0) return [];
  const states: string[] = [];
  for (const [place, count, state] of rowsOf<[number, number, string]>(others, 3))
    for (let at = place; at < place + count; at++) states[at] = state;
  const read = claimedReader();
  return handles
    .split(",")
    .map((handle, at) => read({ handle, spec: specs[at] as string, state: states[at] ?? first }));
}
