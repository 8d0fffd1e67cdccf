/** Time passing (sql/due.ts): promotion of what is due, and the reading of clocks that rang. */
import { stateOfCode } from "../../model/job-state.ts";
import type { PromoteAnswer, ReadDueAnswer, ReadDueRequest } from "../../store/operations.ts";
import type { DueJob } from "../../store/records.ts";
import { emptyHints } from "../../store/hints.ts";
import { callRead, callWrite, onlyRow } from "./call.ts";
import type { Calls } from "./call.ts";
import type { Row } from "./database.ts";
import { readNumbers, unpackNullable, unpackText } from "./text.ts";

export async function promoteDue(calls: Calls, { max }: { readonly max: number }): Promise<PromoteAnswer> {
  const [now, jobs, ready, nextClock] = onlyRow(await callWrite(calls, "promote_v1", [max]));
  const hints = emptyHints();
  for (const route of readNumbers(ready ?? null)) hints.routes.add(route);
  calls.tell(hints);
  const count = Number(jobs);
  return { count, more: count === max, nextDueInMs: inMs(nextClock ?? null, Number(now)) };
}

function inMs(clock: string | null, now: number): number | null {
  return clock === null ? null : Math.max(0, Number(clock) - now);
}

export async function readDue(calls: Calls, { clock, max, cursor }: ReadDueRequest): Promise<ReadDueAnswer> {
  const [timer, seq] = cursor === null ? [-Number.MAX_SAFE_INTEGER, 0] : cursor.split(":").map(Number);
  // One more than asked for tells whether anything is left.
  const values = [calls.now(), clock, timer as number, seq as number, max + 1];
  const rows = await callRead(calls, "read_due_v1", values);
  const last = rows.pop() as Row;
  const now = Number(last[0]);
  const page = rows.slice(0, max);
  const end = page.at(-1);
  return {
    jobs: page.map(dueJobOf),
    cursor: rows.length > max && end !== undefined ? `${end[2]}:${end[3]}` : null,
    now,
    nextInMs: inMs(last[1] ?? null, now),
  };
}

function dueJobOf(row: Row): DueJob {
  return {
    seq: Number(row[3]),
    id: unpackText(row[4] as string),
    fence: Number(row[5]),
    route: Number(row[6]),
    state: stateOfCode(Number(row[7])),
    rev: Number(row[8]),
    attempt: Number(row[9]),
    policy: unpackNullable(row[10] ?? null),
    attempts: unpackNullable(row[11] ?? null),
    owner: unpackNullable(row[12] ?? null),
    cancelAsked: row[13] === "t",
    started: row[14] === "t",
    lateMs: Number(row[15]),
  };
}
