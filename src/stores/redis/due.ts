/** Time passing (lua/due.ts): promotion of what is due, and the reading of clocks that rang. */
import type { PromoteAnswer, ReadDueAnswer, ReadDueRequest } from "../../store/operations.ts";
import { mend } from "./aside.ts";
import type { Calls } from "./call.ts";
import { inMs } from "./claim.ts";
import { readHints } from "./hint-text.ts";
import { dueJobOf, readTexts } from "./record.ts";

export async function promoteDue(calls: Calls, { max }: { readonly max: number }): Promise<PromoteAnswer> {
  type Answer = [now: string, hints: unknown, count: number, more: number, clock: string];
  const answer = (await calls.connection.write("mr1_promote", [String(max)])) as Answer;
  const [now, hints, count, more, clock] = answer;
  calls.tell({ ...readHints(hints), hasPromoted: count > 0 });
  return { count, more: more === 1, nextDueInMs: inMs(clock, Number(now)) };
}

export async function readDue(calls: Calls, { clock, max, cursor }: ReadDueRequest): Promise<ReadDueAnswer> {
  const [fromScore = "", fromHandle = ""] = cursor?.split(":") ?? [];
  const args = [clock, String(max), fromScore, fromHandle];
  type Answer = [...texts: [at: string, clock: string, score: string, handle: string], string[], string[]];
  const answer = (await calls.connection.read("mr1_read_due", args)) as Answer;
  const [at, nextClock, score, handle, flat, met] = answer;
  await mend(calls, met);
  const now = Number(at);
  const jobs = readTexts(flat).flatMap((texts) => (texts === null ? [] : [dueJobOf(texts, { clock, now })]));
  return { jobs, cursor: handle === "" ? null : `${score}:${handle}`, now, nextInMs: inMs(nextClock, now) };
}
