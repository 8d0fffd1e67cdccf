/**
 * What a running attempt writes while it runs (sql/extend.ts). Of a lease that is named twice, the later words count.
 */
import type {
  Extend,
  ExtendAnswer,
  ExtendRequest,
  LeasedWrite,
  RecordAnswer,
} from "../../store/operations.ts";
import { leasedFields } from "../../store/job-fields.ts";
import type { LeasedJob } from "../../store/records.ts";
import { emptyHints, hintDue } from "../../store/hints.ts";
import { callWrite, lightly, onlyRow } from "./call.ts";
import type { Calls } from "./call.ts";
import { unpackFields } from "./columns.ts";
import { leaveEnd } from "./sql/extend.ts";
import { numberList, packText } from "./text.ts";

export async function extendIfLeased(calls: Calls, request: ExtendRequest): Promise<ExtendAnswer> {
  const keyOf = ({ id, seq, fence }: Extend): string => `${fence}:${seq}:${id}`;
  const named = new Map<string, Extend>();
  for (const lease of request.leases)
    named.set(keyOf(lease), { ...named.get(keyOf(lease)), ...definedOf(lease) });
  const leases = [...named.values()].sort((one, other) => one.seq - other.seq);
  const values = [
    packText(request.owner),
    request.leaseMs,
    leases.map(({ id }) => packText(id)),
    numberList(leases.map(({ seq }) => seq)),
    numberList(leases.map(({ fence }) => fence)),
    numberList(leases.map(({ startedAgoMs }) => startedAgoMs ?? null)),
    numberList(
      leases.map(({ attemptEndsInMs }) => (attemptEndsInMs === undefined ? leaveEnd : attemptEndsInMs)),
    ),
    request.wantsOthers,
  ];
  const [now, answered, timerAt, others] = onlyRow(await callWrite(lightly(calls), "extend_v1", values));
  const words = (answered ?? "{}").slice(1, -1).split(",");
  const answerOf = new Map(
    leases.map((lease, at) => [keyOf(lease), words[at] as ExtendAnswer["answers"][number]]),
  );
  if (timerAt !== null) {
    const hints = emptyHints();
    hintDue(hints, Number(timerAt) - Number(now));
    calls.tell(hints);
  }
  return {
    answers: request.leases.map((lease) => answerOf.get(keyOf(lease)) as ExtendAnswer["answers"][number]),
    others: (JSON.parse(others ?? "[]") as Record<string, unknown>[]).map(
      (row) => unpackFields(row, leasedFields) as LeasedJob,
    ),
    now: Number(now),
  };
}

/** A field that is there but undefined says nothing. */
function definedOf(lease: Extend): Extend {
  return Object.fromEntries(
    Object.entries(lease).filter(([, value]) => value !== undefined),
  ) as unknown as Extend;
}

export async function recordIfLeased(calls: Calls, writes: readonly LeasedWrite[]): Promise<RecordAnswer[]> {
  if (writes.length === 0) return [];
  const packed = writes.map(({ id, seq, fence, progress, logs, overflow }) => ({
    id: packText(id),
    seq,
    fence,
    ...(progress === undefined ? {} : { progress: packText(progress) }),
    ...(logs === undefined || logs.length === 0 ? {} : { logs: logs.map(packText) }),
    ...(overflow === undefined ? {} : { overflow: packText(overflow) }),
  }));
  const [answers] = onlyRow(await callWrite(calls, "record_v1", [JSON.stringify(packed)]));
  return (answers ?? "{}").slice(1, -1).split(",") as RecordAnswer[];
}
