/** Settle (lua/settle.ts): endings that look alike share their first texts; only what was not applied is answered. */
import { eventCodes } from "../../model/event-kind.ts";
import { stateCodes } from "../../model/job-state.ts";
import type { TerminalState } from "../../model/job-state.ts";
import type { Settle, SettleAnswer } from "../../store/operations.ts";
import type { Calls } from "./call.ts";
import { readHints } from "./events.ts";
import { nextText, pushUnit, RouteList } from "./next.ts";
import { fieldEnd, handleOf, leasePrefix, packNullable, packNumber, unpackText } from "./text.ts";

const ok: SettleAnswer = { kind: "ok" };

export async function settleIfLeased(calls: Calls, settles: readonly Settle[]): Promise<SettleAnswer[]> {
  if (settles.length === 0) return [];
  const routes = new RouteList();
  const args: string[] = [];
  for (const settle of settles) pushSettle(args, routes, settle);
  const handles = settles.map(({ seq }) => handleOf(seq));
  const [, hints, refusals] = (await calls.connection.write("mr1_settle", [
    ...routes.args(),
    String(settles.length),
    ...handles,
    ...args,
  ])) as [string, unknown, (number | string)[]];
  calls.tell(readHints(hints));
  const answers: SettleAnswer[] = settles.map(() => ok);
  for (let at = 0; at < refusals.length; at += 2) {
    const [kind, id] = (refusals[at + 1] as string).split(fieldEnd);
    answers[refusals[at] as number] = (
      id === undefined ? { kind } : { kind, id: unpackText(id) }
    ) as SettleAnswer;
  }
  return answers;
}

/** Fence and id, next, result, log; effects behind them. */
function pushSettle(args: string[], routes: RouteList, settle: Settle): void {
  const { next, effects, attempts } = settle;
  const mark = effects === undefined ? "" : "*";
  args.push(leasePrefix(settle));
  if (next.to === "scheduled" || next.to === "ready") {
    args.push(mark + nextText(next), "");
  } else {
    const to = stateCodes[next.to satisfies TerminalState];
    args.push(
      `${mark}${to}\x1f${eventCodes[next.event]}\x1f${packNumber(next.keepMs)}\x1f${packNullable(next.reason)}`,
      packNullable(next.result),
    );
  }
  args.push(packNullable(attempts));
  if (effects === undefined) return;
  const { jobs = [], docs = [] } = effects;
  pushUnit(args, routes, { jobs, docs, isEffect: true });
}
