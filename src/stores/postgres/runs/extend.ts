/** Extends leases (runs/extend.sql.ts). If a lease is named twice, the later values count. */
import type { Extend, ExtendAnswer, ExtendRequest } from "../../../store/operations.ts";
import { leasedFields } from "../../../store/job-fields.ts";
import type { LeasedJob } from "../../../store/records.ts";
import { emptyHints, hintDue } from "../../../store/watch/hints.ts";
import { readRows } from "../upkeep/unreadable.ts";
import { callWrite, lightly, onlyRow } from "../functions/call.ts";
import type { Calls } from "../functions/call.ts";
import { leaveEnd } from "./extend.sql.ts";
import { numberList, packText, readNumbers, sparseNumberList } from "../functions/packed-values.ts";

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
    sparseNumberList(leases.map(({ seen }) => seen ?? null)),
  ];
  // If the connection turns out to be dead, there is time for another try before the leases end.
  const timeoutMs = Math.max(answerMinMs, request.leaseMs / 3);
  const [now, answered, timerAt, others, hasEmitted, places] = onlyRow(
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
  const grown = readNumbers(places ?? null).map((place) => (leases[place - 1] as Extend).id);
  return {
    answers: request.leases.map((lease) => answerOf.get(keyOf(lease)) as ExtendAnswer["answers"][number]),
    others: await readRows(calls, rows, leasedFields, (job) => job as LeasedJob),
    now: Number(now),
    ...(grown.length === 0 ? {} : { grown }),
  };
}

/** Removes fields that are undefined, so that they do not replace earlier values. */
function definedOf(lease: Extend): Extend {
  return Object.fromEntries(
    Object.entries(lease).filter(([, value]) => value !== undefined),
  ) as unknown as Extend;
}
