/** Renewals of leases (extend.lua.ts). */
import type { Extend, ExtendAnswer } from "../../../store/operations.ts";
import { unchanged, valueText } from "../packing/argument-text.ts";
import type { Operation } from "../connection/call.ts";
import { readHints } from "../feed/hint-text.ts";
import { leasedJobOf, readTexts } from "../packing/packed-job.ts";
import { handleOf, leasePrefix, packText } from "../packing/value-text.ts";

export const extendIfLeased: Operation<"extendIfLeased"> = async (calls, request) => {
  const args = [packText(request.owner), String(request.leaseMs), valueText(request.wantsOthers)];
  const orUnchanged = (ms: number | null | undefined): string =>
    ms === undefined ? unchanged : valueText(ms);
  for (const lease of request.leases)
    args.push(
      ...[handleOf(lease.seq), leasePrefix(lease)],
      ...[orUnchanged(lease.startedAgoMs), orUnchanged(lease.attemptEndsInMs), valueText(lease.seen)],
    );
  type Answer = [now: string, hints: unknown, ExtendAnswer["answers"], others: string[], grown: number[]];
  const [now, hints, answers, flat, grown] = (await calls.connection.write("mr1_extend", args)) as Answer;
  calls.hint(readHints(hints));
  const others = readTexts(flat).flatMap((texts) => (texts === null ? [] : [leasedJobOf(texts)]));
  const answer = { answers, others, now: Number(now) };
  if (grown.length === 0) return answer;
  return { ...answer, grown: grown.map((place) => (request.leases[place] as Extend).id) };
};
