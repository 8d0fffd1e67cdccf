/** Settle (lua/settle.ts): endings that look alike share their first texts; only what was not applied is answered. */
import { eventCodes } from "../../model/event-kind.ts";
import { stateCodes } from "../../model/job-state.ts";
import type { Settle, SettleAnswer } from "../../store/operations.ts";
import type { Calls } from "./call.ts";
import { readHints } from "./hint-text.ts";
import { nextText, pushUnit, RouteList } from "./next.ts";
import { fieldEnd, handleOf, leasePrefix, packNullable, packNumber, unpackText } from "./text.ts";

const ok: SettleAnswer = { kind: "ok" };

export async function settleIfLeased(calls: Calls, settles: readonly Settle[]): Promise<SettleAnswer[]> {
  if (settles.length === 0) return [];
  const routes = new RouteList();
  const args: string[] = [];
  const run = new SettleRun(args, routes);
  for (const settle of settles) run.add(settle);
  const handles = settles.map(({ seq }) => handleOf(seq));
  const { count } = calls.claims;
  const [, hints, refusals] = (await calls.connection.write("mr1_settle", [
    ...routes.args(),
    String(settles.length),
    ...handles,
    ...args,
  ])) as [string, unknown, (number | string)[]];
  calls.tell(calls.claims.without(readHints(hints), count));
  const answers: SettleAnswer[] = settles.map(() => ok);
  for (let at = 0; at < refusals.length; at += 2) {
    const [kind, id] = (refusals[at + 1] as string).split(fieldEnd);
    answers[refusals[at] as number] = (
      id === undefined ? { kind } : { kind, id: unpackText(id) }
    ) as SettleAnswer;
  }
  return answers;
}

/** Settles in a row with one next: their number, the next, whether results and logs come, then each. */
class SettleRun {
  readonly #args: string[];
  readonly #routes: RouteList;
  #next: string | null = null;
  #hasMore = false;
  #at = 0;
  #length = 0;

  constructor(args: string[], routes: RouteList) {
    this.#args = args;
    this.#routes = routes;
  }

  add(settle: Settle): void {
    const { effects, attempts } = settle;
    const next = (effects === undefined ? "" : "*") + settleText(settle);
    const result = "result" in settle.next ? packNullable(settle.next.result) : "";
    const hasMore = result !== "" || attempts !== null;
    if (next !== this.#next || hasMore !== this.#hasMore) {
      this.#next = next;
      this.#hasMore = hasMore;
      this.#length = 0;
      this.#at = this.#args.push("0", next, hasMore ? "1" : "0") - 3;
    }
    this.#length += 1;
    this.#args[this.#at] = String(this.#length);
    this.#args.push(leasePrefix(settle));
    if (hasMore) this.#args.push(result, packNullable(attempts));
    if (effects === undefined) return;
    const { jobs = [], docs = [] } = effects;
    pushUnit(this.#args, this.#routes, { jobs, docs, isEffect: true });
  }
}

/** A finish goes without its result, so that endings with different results still look alike. */
function settleText({ next }: Settle): string {
  if (next.to === "scheduled" || next.to === "ready") return nextText(next);
  return `${stateCodes[next.to]}\x1f${eventCodes[next.event]}\x1f${packNumber(next.keepMs)}\x1f${packNullable(next.reason)}`;
}
