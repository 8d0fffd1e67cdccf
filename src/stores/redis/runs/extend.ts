/** What a running attempt writes while it runs (extend.lua.ts). */
import type { ExtendAnswer, RecordAnswer } from "../../../store/operations.ts";
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
      ...[orUnchanged(lease.startedAgoMs), orUnchanged(lease.attemptEndsInMs)],
    );
  type Answer = [now: string, hints: unknown, answers: ExtendAnswer["answers"], others: string[]];
  const [now, hints, answers, flat] = (await calls.connection.write("mr1_extend", args)) as Answer;
  calls.hint(readHints(hints));
  const others = readTexts(flat).flatMap((texts) => (texts === null ? [] : [leasedJobOf(texts)]));
  return { answers, others, now: Number(now) };
};

export const recordIfLeased: Operation<"recordIfLeased"> = async ({ connection }, writes) => {
  if (writes.length === 0) return [];
  const args: string[] = [];
  for (const write of writes) {
    const { progress, logs = [], overflow } = write;
    const next = progress === undefined ? unchanged : packText(progress);
    args.push(handleOf(write.seq), leasePrefix(write), next);
    args.push(overflow === undefined ? "" : packText(overflow), String(logs.length), ...logs.map(packText));
  }
  return (await connection.write("mr1_record", args)) as RecordAnswer[];
};
