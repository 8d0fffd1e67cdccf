/** Writes of a running attempt (runs/extend.sql.ts). If a lease is named twice, the later values count. */
import type {
  Extend,
  ExtendAnswer,
  ExtendRequest,
  LeasedWrite,
  OrLocked,
  RecordAnswer,
} from "../../../store/operations.ts";
import { leasedFields } from "../../../store/job-fields.ts";
import type { LeasedJob } from "../../../store/records.ts";
import { emptyHints, hintDue } from "../../../store/watch/hints.ts";
import { readRows } from "../upkeep/unreadable.ts";
import { callEach, callWrite, lightly, onlyRow } from "../functions/call.ts";
import type { Calls } from "../functions/call.ts";
import { leaveEnd } from "./extend.sql.ts";
import { numberList, packText } from "../functions/packed-values.ts";

const answerMinMs = 1000;

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
  // If the connection turns out to be dead, there is time for another try before the leases end.
  const timeoutMs = Math.max(answerMinMs, request.leaseMs / 3);
  const [now, answered, timerAt, others, hasEmitted] = onlyRow(
    await callWrite(lightly(calls), "extend_v1", values, timeoutMs),
  );
  const words = (answered ?? "{}").slice(1, -1).split(",");
  const answerOf = new Map(
    leases.map((lease, at) => [keyOf(lease), words[at] as ExtendAnswer["answers"][number]]),
  );
  const hints = emptyHints();
  if (timerAt !== null) hintDue(hints, Number(timerAt) - Number(now));
  hints.hasEmitted = hasEmitted === "t";
  calls.emit(hints);
  const rows = JSON.parse(others ?? "[]") as unknown[][];
  return {
    answers: request.leases.map((lease) => answerOf.get(keyOf(lease)) as ExtendAnswer["answers"][number]),
    others: await readRows(calls, rows, leasedFields, (job) => job as LeasedJob),
    now: Number(now),
  };
}

/** Removes fields that are undefined, so that they do not replace earlier values. */
function definedOf(lease: Extend): Extend {
  return Object.fromEntries(
    Object.entries(lease).filter(([, value]) => value !== undefined),
  ) as unknown as Extend;
}

export async function recordIfLeased(
  calls: Calls,
  writes: readonly LeasedWrite[],
): Promise<OrLocked<RecordAnswer>[]> {
  const packed = writes.map(({ id, seq, fence, progress, logs, overflow }) => ({
    ...{ id: packText(id), seq, fence },
    progress: progress === undefined ? undefined : packText(progress),
    logs: logs?.map(packText),
    overflow: overflow === undefined ? undefined : packText(overflow),
  }));
  const answers = await callEach<{ kind: RecordAnswer | "locked" }>(calls, "record_one_v1", packed);
  return answers.map(({ kind }) => (kind === "locked" ? { kind } : kind));
}
