/** Settle (settle.lua.ts): endings that look alike share their first texts; only what was not applied is answered. */
import type { SettleNext } from "../../../model/job/change.ts";
import type { Settle, SettleAnswer } from "../../../store/operations.ts";
import { areAlike, isFinish } from "../../../store/path-predicates.ts";
import { valueText } from "../packing/argument-text.ts";
import type { Operation } from "../connection/call.ts";
import { entryText, nextText } from "../packing/next-text.ts";
import { pushUnit, Shapes } from "../jobs/submit-text.ts";
import { fieldEnd, handleOf, packNullable, packText, rowsOf, unpackText } from "../packing/value-text.ts";

const ok: SettleAnswer = { kind: "ok" };

export const settleIfLeased: Operation<"settleIfLeased"> = async (calls, settles) => {
  if (settles.length === 0) return [];
  const series = new Series();
  for (const settle of settles) series.add(settle);
  series.end();
  const handles = settles.map(({ seq }) => handleOf(seq));
  const args = series.shapes.args().concat(String(settles.length), handles, series.args);
  const refusals = (await calls.flush.call("settle", args)) as (number | string)[];
  const answers: SettleAnswer[] = settles.map(() => ok);
  for (const [place, said] of rowsOf<[number, string]>(refusals, 2)) {
    const [kind, id] = said.split(fieldEnd);
    answers[place] = refusalOf(kind as SettleAnswer["kind"], id);
  }
  return answers;
};

function refusalOf(kind: SettleAnswer["kind"], id: string | undefined): SettleAnswer {
  if (kind === "arrived") return { kind, last: Number(id) };
  return (id === undefined ? { kind } : { kind, id: unpackText(id) }) as SettleAnswer;
}

/** Settles in a row with one next and one fence. */
class Series {
  readonly args: string[] = [];
  readonly shapes = new Shapes();
  #last: SettleNext | null = null;
  #text = "";
  #fence = 0;
  /** Whether attempt logs, results, effects and journals come. */
  #parts = 0;
  #at = 0;
  #length = 0;

  add(settle: Settle): void {
    const { id, fence, next, journal, effects, attempts } = settle;
    const result = isFinish(next) ? packNullable(next.result) : "";
    const extras = Number(effects !== undefined) + 2 * Number(journal !== undefined);
    const parts = Number(attempts !== null) + 2 * Number(result !== "") + 4 * extras;
    if (parts !== this.#parts || fence !== this.#fence || !this.#isLikeLast(next)) {
      this.end();
      const text = textOf(next);
      const flags = [attempts !== null, result !== "", extras].map(valueText);
      this.#at = this.args.push("0", text, String(fence), ...flags) - 6;
      this.#length = 0;
      this.#last = next;
      this.#text = text;
      this.#fence = fence;
      this.#parts = parts;
    }
    this.#length += 1;
    this.args.push(attempts === null ? packText(id) : `${packText(id)}${fieldEnd}${packText(attempts)}`);
    if (result !== "") this.args.push(result);
    if (journal !== undefined) {
      const { seen, entries } = journal;
      this.args.push(valueText(seen), String(entries.length), ...entries.map(entryText));
    }
    if (effects === undefined) return;
    pushUnit(this.args, this.shapes, { jobs: [], ...effects }, true);
  }

  #isLikeLast(next: SettleNext): boolean {
    const last = this.#last;
    if (last === null || last === next) return last !== null;
    return isFinish(last) && isFinish(next) ? areAlike(last, next) : textOf(next) === this.#text;
  }

  /** Says how long the last series is. */
  end(): void {
    if (this.#length > 0) this.args[this.#at] = String(this.#length);
  }
}

/** A finish goes without its result, so that endings with different results still look alike. */
function textOf(next: SettleNext): string {
  return nextText(isFinish(next) ? { ...next, result: null } : next);
}
