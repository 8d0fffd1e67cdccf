/** Time passing (due.lua.ts): promotion of what is due, and the reading of clocks that are due. */
import { dueJobOf, untilMs } from "../../../store/due-job.ts";
import { repair } from "./unreadable.ts";
import type { Operation } from "../connection/call.ts";
import { readHints } from "../feed/hint-text.ts";
import { readDueRow, readTexts } from "../packing/packed-job.ts";
import { readNumber } from "../packing/value-text.ts";

export const promoteDue: Operation<"promoteDue"> = async (calls, { max }) => {
  type Answer = [now: string, hints: unknown, count: number, more: number, clock: string];
  const answer = (await calls.connection.write("mr1_promote", [String(max)])) as Answer;
  const [now, hints, count, more, clock] = answer;
  calls.hint({ ...readHints(hints), hasPromoted: count > 0 });
  return { count, more: more === 1, nextDueInMs: untilMs(readNumber(clock), Number(now)) };
};

export const readDue: Operation<"readDue"> = async (calls, { clock, max, cursor }) => {
  const [fromScore = "", fromHandle = ""] = cursor?.split(":") ?? [];
  const args = [clock, String(max), fromScore, fromHandle];
  type Answer = [...texts: [at: string, clock: string, score: string, handle: string], string[], string[]];
  const answer = (await calls.connection.read("mr1_read_due", args)) as Answer;
  const [at, nextClock, score, handle, flat, met] = answer;
  await repair(calls, met);
  const now = Number(at);
  const jobs = readTexts(flat).flatMap((texts) =>
    texts === null ? [] : [dueJobOf(readDueRow(texts), { clock, now })],
  );
  const nextInMs = untilMs(readNumber(nextClock), now);
  return { jobs, cursor: handle === "" ? null : `${score}:${handle}`, now, nextInMs };
};
