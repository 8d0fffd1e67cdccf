/** Settle (lua/settle.ts): endings that look alike share their first texts; only what was not applied is answered. */
import type { SettleNext } from "../../model/change.ts";
import type { Settle, SettleAnswer } from "../../store/operations.ts";
import { checkSettles } from "../../store/later-version.ts";
import { isFinish } from "../../store/plain.ts";
import { valueText } from "./argument-text.ts";
import type { Operation } from "./call.ts";
import { nextText } from "./next-text.ts";
import { pushUnit, Shapes } from "./submit-text.ts";
import { fieldEnd, handleOf, leasePrefix, packNullable, rowsOf, unpackText } from "./text.ts";

const ok: SettleAnswer = { kind: "ok" };

export const settleIfLeased: Operation<"settleIfLeased"> = async (calls, settles) => {
  checkSettles(settles);
  if (settles.length === 0) return [];
  const stretches = new Stretches();
  for (const settle of settles) stretches.add(settle);
  const handles = settles.map(({ seq }) => handleOf(seq));
  const refusals = (await calls.turn.call("settle", [
    ...stretches.shapes.args(),
    String(settles.length),
    ...handles,
    ...stretches.args,
  ])) as (number | string)[];
  const answers: SettleAnswer[] = settles.map(() => ok);
  for (const [place, said] of rowsOf<[number, string]>(refusals, 2)) {
    const [kind, id] = said.split(fieldEnd);
    answers[place] = (id === undefined ? { kind } : { kind, id: unpackText(id) }) as SettleAnswer;
  }
  return answers;
};

/** Settles in a row with one next. */
class Stretches {
  readonly args: string[] = [];
  readonly shapes = new Shapes();
  #last: SettleNext | null = null;
  /** Whether results, attempt logs and effects come. */
  #parts = "";
  #at = 0;
  #length = 0;

  add(settle: Settle): void {
    const { next, effects, attempts } = settle;
    const result = isFinish(next) ? packNullable(next.result) : "";
    const hasResult = result !== "";
    const parts = valueText(hasResult) + valueText(attempts !== null) + valueText(effects !== undefined);
    if (!isAlike(this.#last, next) || parts !== this.#parts) {
      // A finish goes without its result, so that endings with different results still look alike.
      const text = nextText(isFinish(next) ? { ...next, result: null } : next);
      this.#at = this.args.push("0", text, ...parts) - 5;
      this.#length = 0;
      this.#last = next;
      this.#parts = parts;
    }
    this.#length += 1;
    this.args[this.#at] = String(this.#length);
    this.args.push(leasePrefix(settle));
    if (hasResult) this.args.push(result);
    if (attempts !== null) this.args.push(packNullable(attempts));
    if (effects === undefined) return;
    const { jobs = [], docs = [] } = effects;
    pushUnit(this.args, this.shapes, { jobs, docs }, true);
  }
}

/** Whether two endings differ in their results alone. */
function isAlike(one: SettleNext | null, other: SettleNext): boolean {
  if (one === null || !isFinish(one) || !isFinish(other)) return one === other;
  return (
    one.to === other.to &&
    one.event === other.event &&
    one.reason === other.reason &&
    one.keepMs === other.keepMs
  );
}
