/** Promotes due jobs, and reads jobs whose clock is due (upkeep/due.sql.ts). */
import { dueJobOf } from "../../../store/due-job.ts";
import { dueFields } from "../../../store/job-fields.ts";
import type { PromoteAnswer, ReadDueAnswer, ReadDueRequest } from "../../../store/operations.ts";
import { emptyHints } from "../../../store/watch/hints.ts";
import { readRows } from "./unreadable.ts";
import { callRead, callWrite, onlyRow } from "../functions/call.ts";
import type { Calls } from "../functions/call.ts";
import type { Row } from "../connection/database.ts";
import { readNumbers } from "../functions/packed-values.ts";

const seqAt = dueFields.indexOf("seq");

export async function promoteDue(calls: Calls, { max }: { readonly max: number }): Promise<PromoteAnswer> {
  const [now, jobs, ready, more, nextClock] = onlyRow(await callWrite(calls, "promote_v1", [max]));
  const hints = emptyHints();
  for (const route of readNumbers(ready ?? null)) hints.routes.add(route);
  hints.hasPromoted = Number(jobs) > 0;
  calls.emit(hints);
  return { count: Number(jobs), more: more === "t", nextDueInMs: inMs(nextClock ?? null, Number(now)) };
}

function inMs(clock: string | null, now: number): number | null {
  return clock === null ? null : Math.max(0, Number(clock) - now);
}

export async function readDue(calls: Calls, { clock, max, cursor }: ReadDueRequest): Promise<ReadDueAnswer> {
  const [timer, seq] = cursor === null ? [-Number.MAX_SAFE_INTEGER, 0] : cursor.split(":").map(Number);
  // One more than asked for shows whether anything is left.
  const values = [calls.now(), clock, timer as number, seq as number, max + 1];
  const rows = await callRead(calls, "read_due_v1", values);
  const [time, nextClock] = rows.pop() as Row;
  const now = Number(time);
  const page = rows.slice(0, max).map(([, , timer, ...fields]) => ({ timer, fields }));
  const end = page.at(-1);
  const read = page.map(({ fields }) => fields);
  return {
    jobs: await readRows(calls, read, dueFields, (job) => dueJobOf(job, { clock, now })),
    cursor: rows.length > max && end !== undefined ? `${end.timer}:${end.fields[seqAt]}` : null,
    now,
    nextInMs: inMs(nextClock ?? null, now),
  };
}
