/** What a running attempt writes while it runs (lua/extend.ts). */
import type { ExtendAnswer, ExtendRequest, LeasedWrite, RecordAnswer } from "../../store/operations.ts";
import type { Calls } from "./call.ts";
import { leasedJobs } from "./claim.ts";
import { readHints } from "./hint-text.ts";
import { handleOf, leasePrefix, packNumber, packText } from "./text.ts";

export async function extendIfLeased(calls: Calls, request: ExtendRequest): Promise<ExtendAnswer> {
  const args = [packText(request.owner), String(request.leaseMs), request.wantsOthers ? "1" : "0"];
  for (const lease of request.leases) {
    const { attemptEndsInMs } = lease;
    const ends = attemptEndsInMs === null ? "-" : packNumber(attemptEndsInMs);
    args.push(handleOf(lease.seq), leasePrefix(lease), packNumber(lease.startedAgoMs), ends);
  }
  const [now, hints, answers, flat, others] = (await calls.connection.write("mr1_extend", args)) as [
    string,
    unknown,
    ExtendAnswer["answers"],
    string[],
    (number | string)[],
  ];
  calls.tell(readHints(hints));
  return { answers, others: leasedJobs(calls, flat, others, { fence: 0, claimedAt: 0 }), now: Number(now) };
}

export async function recordIfLeased(calls: Calls, writes: readonly LeasedWrite[]): Promise<RecordAnswer[]> {
  if (writes.length === 0) return [];
  const args: string[] = [];
  for (const write of writes) {
    const { progress, logs = [] } = write;
    args.push(handleOf(write.seq), leasePrefix(write), progress === undefined ? "0" : "1");
    args.push(
      progress === undefined ? "" : packText(progress),
      String(logs.length),
      ...logs.map((line) => packText(line)),
    );
  }
  return (await calls.connection.write("mr1_record", args)) as RecordAnswer[];
}
