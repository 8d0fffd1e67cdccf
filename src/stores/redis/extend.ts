/** What a running attempt writes while it runs (lua/extend.ts). */
import type { ExtendAnswer, ExtendRequest, LeasedWrite, RecordAnswer } from "../../store/operations.ts";
import { unchanged } from "./argument-text.ts";
import type { Calls } from "./call.ts";
import { readHints } from "./hint-text.ts";
import { flagText } from "./next-text.ts";
import { leasedJobOf, readTexts } from "./record.ts";
import { handleOf, leasePrefix, packNumber, packText } from "./text.ts";

export async function extendIfLeased(calls: Calls, request: ExtendRequest): Promise<ExtendAnswer> {
  const args = [packText(request.owner), String(request.leaseMs), flagText(request.wantsOthers)];
  const orUnchanged = (ms: number | null | undefined): string =>
    ms === undefined ? unchanged : packNumber(ms);
  for (const lease of request.leases)
    args.push(
      ...[handleOf(lease.seq), leasePrefix(lease)],
      ...[orUnchanged(lease.startedAgoMs), orUnchanged(lease.attemptEndsInMs)],
    );
  const [now, hints, answers, flat] = (await calls.connection.write("mr1_extend", args)) as [
    string,
    unknown,
    ExtendAnswer["answers"],
    string[],
  ];
  calls.tell(readHints(hints));
  const others = readTexts(flat).flatMap((texts) => (texts === null ? [] : [leasedJobOf(texts)]));
  return { answers, others, now: Number(now) };
}

export async function recordIfLeased(calls: Calls, writes: readonly LeasedWrite[]): Promise<RecordAnswer[]> {
  if (writes.length === 0) return [];
  const args: string[] = [];
  for (const write of writes) {
    const { progress, logs = [], overflow } = write;
    args.push(
      handleOf(write.seq),
      leasePrefix(write),
      progress === undefined ? unchanged : packText(progress),
    );
    args.push(overflow === undefined ? "" : packText(overflow), String(logs.length), ...logs.map(packText));
  }
  return (await calls.connection.write("mr1_record", args)) as RecordAnswer[];
}
